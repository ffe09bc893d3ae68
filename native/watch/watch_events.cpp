#include <cstring>

#include "core/observe/blocks.h"
#include "core/writer/attributes.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

using Key = format::AttributeKey;

constexpr const char* kTargets[] = {"tensor", "tensor", "address", "window"};
constexpr const char* kSources[] = {"aten", "atb", "kernel", "kernel"};

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

void write(const RecordingScope& scope, format::EventKind kind, const Subject& subject, const Attributes& attributes,
           std::uint8_t flags, const CallSite* site) noexcept {
    Event event{kind};
    event.device = subject.device;
    event.flags = flags;
    event.address = subject.address;
    event.size = static_cast<std::int64_t>(subject.bytes);
    event.attribute_id = attributes.id();
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

void add_finding(Attributes& attributes, const Finding& finding) noexcept {
    attributes.text(Key::kWhen, finding.is_during ? "during" : "between");
    if (finding.running != nullptr) {
        const OperatorName& name = finding.running->name;
        attributes.text(Key::kOperator, name.text)
            .number(Key::kCall, name.call)
            .text(Key::kSource, kSources[static_cast<std::size_t>(name.source)]);
    } else if (!finding.writes_are_known) {
        // One that has no name before it has been launched, and no operator around it.
        attributes.text(Key::kSource, "kernel");
    }
    if (finding.previous != nullptr && finding.previous->text[0] != '\0') {
        attributes.text(Key::kPrevious, finding.previous->text).number(Key::kPreviousCall, finding.previous->call);
    }
    if (finding.concurrent != 0) {
        attributes.number(Key::kConcurrent, finding.concurrent);
    }
    if (finding.writer != nullptr) {
        const OperatorName& writer = finding.writer->name;
        attributes.text(Key::kWriter, writer.text).number(Key::kWriterCall, writer.call);
    }
}

void add_change(Attributes& attributes, const Change& change, std::uint64_t before, std::uint64_t after) noexcept {
    attributes.number(Key::kBefore, before).number(Key::kAfter, after);
    if (change.bytes_are_exact) {
        attributes.number(Key::kChangedBytes, change.changed_bytes);
    }
    attributes.number(Key::kFirst, change.first)
        .number(Key::kLast, change.last)
        .number(Key::kGranularity, change.bytes_are_exact ? 1 : 1024);
    for (std::size_t index = 0; index < change.range_count; ++index) {
        const ChangedRange& range = change.ranges[index];
        attributes.number(Key::kRangeFirst, range.first).number(Key::kRangeLast, range.last);
    }
    if (change.has_more_ranges) {
        attributes.number(Key::kHasMoreRanges, 1);
    }
}

void add_watch(Attributes& attributes, const Watched& watched) noexcept {
    attributes.text(Key::kWatch, kTargets[static_cast<std::size_t>(watched.target)])
        .number(Key::kWatchId, watched.number);
    if (watched.target == Target::kWindow) {
        attributes.number(Key::kOutput, watched.output);
    }
}

}  // namespace

void write_change(const Watched& watched, const Finding& finding, const Change& change, std::uint64_t checksum_before,
                  const CallSite& site) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Attributes attributes(scope);
    add_watch(attributes, watched);
    add_finding(attributes, finding);
    add_change(attributes, change, checksum_before, watched.fingerprint.checksum());
    write(scope, format::EventKind::kWatch, subject_of(watched), attributes, flags_of(finding), &site);
}

void write_start(const Watched& watched, bool full_content, const CallSite& site) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Attributes attributes(scope);
    add_watch(attributes, watched);
    attributes.text(Key::kContent, full_content ? "full" : "light").number(Key::kAfter, watched.fingerprint.checksum());
    if (watched.target == Target::kTrainedTensor) {
        attributes.number(Key::kIsTrained, 1);
    }
    write(scope, format::EventKind::kWatchStart, subject_of(watched), attributes, 0, &site);
}

void write_stop(const Watched& watched, const char* reason) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Attributes attributes(scope);
    add_watch(attributes, watched);
    attributes.text(Key::kReason, reason);
    write(scope, format::EventKind::kWatchStop, subject_of(watched), attributes, 0, nullptr);
}

void write_change_of_block(const LiveBlock& block, const Finding& finding, const Change& change,
                           std::uint64_t checksum_before, std::uint64_t checksum_after, const Neighbour* neighbour,
                           const Overrun& overrun, const CallSite& site) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Attributes attributes(scope);
    attributes.text(Key::kWatch, "auto").number(Key::kWatchId, 0).number(Key::kIsExact, finding.is_exact ? 1 : 0);
    if (finding.is_beside) {
        attributes.number(Key::kIsBeside, 1);
    }
    add_finding(attributes, finding);
    add_change(attributes, change, checksum_before, checksum_after);
    if (neighbour != nullptr) {
        const LiveBlock& before = neighbour->block;
        attributes.number(Key::kNeighbour, recorder::live_block_sequence(before.pool, before.address))
            .number(Key::kNeighbourAddress, before.address)
            .number(Key::kNeighbourSize, before.size_bytes)
            .number(Key::kNeighbourIsWritten, neighbour->is_written ? 1 : 0);
    }
    if (overrun.from_neighbour) {
        attributes.number(Key::kNeighbourFirst, overrun.first_in_neighbour);
    }
    if (overrun.more_blocks != 0) {
        attributes.number(Key::kMoreBlocks, overrun.more_blocks).number(Key::kMoreUntil, overrun.until);
    }
    write(scope, format::EventKind::kWatch, Subject{&block, block.address, block.size_bytes, block.device, ""},
          attributes, flags_of(finding), &site);
}

}  // namespace msmemscope::watch
