#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/observe/blocks.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

constexpr const char* kTargets[] = {"tensor", "address", "window"};
constexpr const char* kSources[] = {"aten", "atb", "kernel", "kernel"};

class Attributes {
public:
    __attribute__((format(printf, 2, 3))) void add(const char* form, ...) noexcept {
        va_list arguments;
        va_start(arguments, form);
        const int written = std::vsnprintf(text_ + bytes_, sizeof(text_) - bytes_, form, arguments);
        va_end(arguments);
        if (written > 0) {
            const std::size_t room = sizeof(text_) - 1 - bytes_;
            bytes_ += static_cast<std::size_t>(written) < room ? static_cast<std::size_t>(written) : room;
        }
    }
    const char* text() const noexcept { return text_; }
    // Without the line feed at the end.
    std::size_t bytes() const noexcept { return bytes_ > 0 && text_[bytes_ - 1] == '\n' ? bytes_ - 1 : bytes_; }

private:
    char text_[2048] = "";
    std::size_t bytes_ = 0;
};

struct Subject {
    const LiveBlock* block;
    std::uint64_t address;
    std::uint64_t bytes;
    format::Device device;
    const char* name;
};

Subject subject_of(const Watched& watched) noexcept {
    return Subject{&watched.block, watched.begin, watched.content.bytes(), watched.device, watched.name};
}

void write(format::EventKind kind, const Subject& subject, const Attributes& attributes, std::uint8_t flags,
           const CallSite* site) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Event event{kind};
    event.device = subject.device;
    event.flags = flags;
    event.address = subject.address;
    event.size = static_cast<std::int64_t>(subject.bytes);
    event.attribute_id = recorder::intern_string(scope, attributes.text(), attributes.bytes());
    if (subject.name[0] != '\0') {
        event.name_id = recorder::intern_string(scope, subject.name, std::strlen(subject.name));
    }
    if (subject.block->size_bytes != 0) {
        event.pool = subject.block->pool;
        // A block gets its record when collection begins.
        event.extra = recorder::live_block_sequence(subject.block->pool, subject.block->address);
        if (event.extra == 0) {
            event.extra = subject.block->sequence;
        }
    }
    if (site != nullptr) {
        recorder::append_with_stacks(scope, event, *site);
    } else {
        recorder::append(scope, event);
    }
}

std::uint8_t flags_of(const Finding& finding) noexcept {
    if (finding.may_write) {
        return format::kFlagMayWrite;
    }
    return finding.writes_are_known && finding.is_during ? std::uint8_t{0} : std::uint8_t{format::kFlagWritesUnknown};
}

void add_finding(Attributes& text, const Finding& finding) noexcept {
    text.add("when=%s\n", finding.is_during ? "during" : "between");
    if (finding.running != nullptr) {
        const OperatorName& name = finding.running->name;
        text.add("operator=%s\ncall=%" PRIu64 "\nsource=%s\n", name.text, name.call,
                 kSources[static_cast<std::size_t>(name.source)]);
    } else if (!finding.writes_are_known) {
        text.add("source=kernel\n");  // one that has no name before it has been launched, and no operator around it
    }
    if (finding.previous != nullptr && finding.previous->text[0] != '\0') {
        text.add("previous=%s\nprevious_call=%" PRIu64 "\n", finding.previous->text, finding.previous->call);
    }
    if (finding.concurrent != 0) {
        text.add("concurrent=%zu\n", finding.concurrent);
    }
    if (finding.writer != nullptr) {
        text.add("writer=%s\nwriter_call=%" PRIu64 "\n", finding.writer->name.text, finding.writer->name.call);
    }
}

void add_change(Attributes& text, const Change& change, std::uint64_t before, std::uint64_t after) noexcept {
    text.add("before=%016" PRIx64 "\nafter=%016" PRIx64 "\n", before, after);
    if (change.bytes_are_exact) {
        text.add("changed_bytes=%" PRIu64 "\n", change.changed_bytes);
    }
    text.add("first=%" PRIu64 "\nlast=%" PRIu64 "\ngranularity=%d\nranges=", change.first, change.last,
             change.bytes_are_exact ? 1 : 1024);
    for (std::size_t index = 0; index < change.range_count; ++index) {
        text.add("%s%" PRIu64 "-%" PRIu64, index == 0 ? "" : ",", change.ranges[index].first,
                 change.ranges[index].last);
    }
    text.add("%s\n", change.has_more_ranges ? ",..." : "");
}

void add_watch(Attributes& text, const Watched& watched) noexcept {
    text.add("watch=%s\nid=%u\n", kTargets[static_cast<std::size_t>(watched.target)], watched.number);
    if (watched.target == Target::kWindow) {
        text.add("output=%u\n", watched.output);
    }
}

}  // namespace

void write_change(const Watched& watched, const Finding& finding, const Change& change, std::uint64_t checksum_before,
                  const CallSite& site) noexcept {
    Attributes text;
    add_watch(text, watched);
    add_finding(text, finding);
    add_change(text, change, checksum_before, watched.fingerprint.checksum());
    write(format::EventKind::kWatch, subject_of(watched), text, flags_of(finding), &site);
}

void write_start(const Watched& watched, bool full_content, const CallSite& site) noexcept {
    Attributes text;
    add_watch(text, watched);
    text.add("content=%s\nafter=%016" PRIx64 "\n", full_content ? "full" : "light", watched.fingerprint.checksum());
    write(format::EventKind::kWatchStart, subject_of(watched), text, 0, &site);
}

void write_stop(const Watched& watched, const char* reason) noexcept {
    Attributes text;
    add_watch(text, watched);
    text.add("reason=%s\n", reason);
    write(format::EventKind::kWatchStop, subject_of(watched), text, 0, nullptr);
}

void write_change_of_block(const LiveBlock& block, const Finding& finding, const Change& change,
                           std::uint64_t checksum_before, std::uint64_t checksum_after, const Neighbour* neighbour,
                           const Overrun& overrun, const CallSite& site) noexcept {
    Attributes text;
    text.add("watch=auto\nid=0\nexact=%d\n", finding.is_exact ? 1 : 0);
    if (finding.is_beside) {
        text.add("beside=1\n");
    }
    add_finding(text, finding);
    add_change(text, change, checksum_before, checksum_after);
    if (neighbour != nullptr) {
        text.add("neighbour=%" PRIu64 "\nneighbour_address=%" PRIu64 "\nneighbour_size=%" PRIu64
                 "\nwritten_neighbour=%d\n",
                 recorder::live_block_sequence(neighbour->block.pool, neighbour->block.address),
                 neighbour->block.address, neighbour->block.size_bytes, neighbour->is_written ? 1 : 0);
    }
    if (overrun.from_neighbour) {
        text.add("neighbour_first=%" PRIu64 "\n", overrun.first_in_neighbour);
    }
    if (overrun.more_blocks != 0) {
        text.add("more_blocks=%zu\nmore_until=%" PRIu64 "\n", overrun.more_blocks, overrun.until);
    }
    write(format::EventKind::kWatch, Subject{&block, block.address, block.size_bytes, block.device, ""}, text,
          flags_of(finding), &site);
}

}  // namespace msmemscope::watch
