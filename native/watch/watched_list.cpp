// The list of watched memory: looking at it, writing its content to files, and the window of --watch.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <utility>

#include "watch/narrow_look.h"
#include "watch/watch_state.h"

namespace msmemscope::watch {
namespace {

// A copy is kept of memory up to these sizes: changes are then told to the byte, and content is written as it was seen.
constexpr std::uint64_t kLargestCopyLight = std::uint64_t{4} << 20U;
constexpr std::uint64_t kLargestCopyFull = std::uint64_t{1} << 30U;

Checksum checksum_kind() noexcept { return recorder::settings().watch_crc64 ? Checksum::kCrc64 : Checksum::kHash64; }

void dump(State& held, Watched& watched, const OperatorName& name, bool is_before) noexcept {
    if (watched.dumps_left == 0 || !held.writes_files || !held.files.are_open() || !watched.fingerprint.is_known()) {
        return;
    }
    if (watched.dumps_left > 0) {
        --watched.dumps_left;
    }
    const LookName look{watched.device, this_thread_id(), name.text, name.call,
                        watched.name,   watched.output,   is_before};
    const Settings& settings = recorder::settings();
    if (settings.watch_full_content) {
        held.files.write_content(look, watched.fingerprint, watched.content, watched.reading(),
                                 settings.watch_max_size_bytes);
    } else {
        held.files.write_checksum(look, watched.fingerprint.checksum(), settings.watch_max_size_bytes);
    }
}

}  // namespace

std::uint32_t this_thread_id() noexcept {
    static __attribute__((tls_model("initial-exec"))) __thread std::uint32_t number = 0;
    static __attribute__((tls_model("initial-exec"))) __thread pid_t process = 0;
    if (process != getpid()) {
        process = getpid();
        number = static_cast<std::uint32_t>(syscall(SYS_gettid));
    }
    return number;
}

void update_activity(const State& held) noexcept {
    const Settings& settings = recorder::settings();
    std::uint32_t bits = held.watched.empty() && settings.watch_end[0] == '\0' && !settings.watch_auto
                             ? 0U
                             : std::uint32_t{kWatchesOperators};
    bits |= settings.watch_auto ? std::uint32_t{kFollowsBlocks} : 0U;
    bool concerns_device = (settings.watch_auto || settings.watch_start[0] != '\0') && settings.devices.kinds != 0;
    for (const Watched& watched : held.watched) {
        concerns_device = concerns_device || watched.device >= 0;
    }
    bits |= concerns_device ? std::uint32_t{kConcernsDevice} : 0U;
    recorder::set_block_listener(bits != 0 ? &kBlockListener : nullptr);
    activity.store(bits, std::memory_order_relaxed);
}

void dump_all(State& held, const OperatorName& name, bool is_before) noexcept {
    for (Watched& watched : held.watched) {
        if (watched.ended_because == nullptr) {
            dump(held, watched, name, is_before);
        }
    }
}

void announce(State& held, Watched& watched, const CallSite& site) noexcept {
    const Settings& settings = recorder::settings();
    watched.is_announced = true;
    write_start(watched, settings.watch_full_content, site);
    if (settings.watch_full_content && !held.folder_is_reported) {
        held.folder_is_reported = true;
        char line[300];
        std::snprintf(line, sizeof(line),
                      "watch: contents go to watch_dump under the output folder, at most %" PRIu64
                      " bytes of each process (--watch-max-size)",
                      settings.watch_max_size_bytes);
        recorder::warn(line);
    }
}

// Says what ended since, and takes it off the list.
void settle_list(State& held, const CallSite& site) noexcept {
    for (Watched& watched : held.watched) {
        if (watched.ended_because == nullptr) {
            if (!watched.is_announced) {
                announce(held, watched, site);
            }
            continue;
        }
        write_stop(watched, watched.ended_because);
        if (watched.target != Target::kWindow) {
            char line[400];
            std::snprintf(line, sizeof(line), "watch: the memory of '%s' %s; it is watched no longer", watched.name,
                          std::strcmp(watched.ended_because, "freed") == 0 ? "was freed" : "cannot be read");
            recorder::warn(line);
        }
    }
    const auto ended = std::remove_if(held.watched.begin(), held.watched.end(),
                                      [](const Watched& watched) { return watched.ended_because != nullptr; });
    if (ended != held.watched.end()) {
        held.watched.erase(ended, held.watched.end());
        update_activity(held);
    }
}

void look_at_all(State& held, Finding finding, const CallSite& site) noexcept {
    for (Watched& watched : held.watched) {
        if (watched.ended_because != nullptr) {
            continue;
        }
        const std::uint64_t before = watched.fingerprint.checksum();
        Change change;
        if (!look_narrowly(watched.fingerprint, watched.pages, watched.content, watched.reading(), change)
                 .is_readable) {
            watched.ended_because = "unreadable";
            continue;
        }
        if (!change.happened) {
            continue;
        }
        finding.may_write =
            finding.is_during && finding.running != nullptr && finding.running->may_write(watched.content.range());
        finding.writer = nullptr;
        finding.writes_are_known = finding.running != nullptr && finding.running->writes_are_known;
        for (const Running& other : held.running) {
            if (&other == finding.running) {
                continue;
            }
            // A kernel belongs to the operator around it, whose arguments are known.
            finding.writes_are_known = finding.writes_are_known || other.writes_are_known;
            if (!finding.may_write && other.may_write(watched.content.range())) {
                finding.may_write = true;
                finding.writer = &other;
            }
        }
        write_change(watched, finding, change, before, site);
        const bool is_of_kernel = finding.running == nullptr || finding.running->name.source == Source::kKernel;
        if (is_of_kernel && !finding.may_write && !finding.writes_are_known && !held.knows_kernels) {
            held.knows_kernels = true;
            recorder::warn(
                "watch: memory changed, and which kernels may write it is not known; with --level=op,kernel "
                "changes are judged by the operators that the kernels belong to");
        }
    }
}

Watched* add_to(State& held, Target target, const Content& content, format::Device device, const char* name,
                std::int64_t dump_count, std::uint32_t output) noexcept {
    const Settings& settings = recorder::settings();
    const std::uint64_t most = settings.watch_full_content ? kLargestCopyFull : kLargestCopyLight;
    Watched watched{0,
                    target,
                    device,
                    output,
                    dump_count,
                    {},
                    content,
                    content.begin(),
                    content.end(),
                    {},
                    Fingerprint(content.bytes() <= most, checksum_kind()),
                    {},
                    nullptr,
                    false};
    std::snprintf(watched.name, sizeof(watched.name), "%s", name);
    recorder::find_block_around(content.address, watched.block);
    if (watched.device == format::kDeviceNone) {
        watched.device = watched.block.size_bytes != 0 ? watched.block.device : format::kDeviceCpu;
    }
    if (watched.block.size_bytes != 0 && watched.end > watched.block.address + watched.block.size_bytes) {
        watched.block = LiveBlock{};  // reaches beyond it: nothing says that the rest stays
    }
    Change change;
    if (!look_narrowly(watched.fingerprint, watched.pages, watched.content, watched.reading(), change).is_readable) {
        return nullptr;
    }
    watched.number = ++held.last_number;
    held.watched.push_back(std::move(watched));
    return &held.watched.back();
}

void open_window(State& held, const Running& running, const Output* outputs, std::size_t count,
                 const CallSite& site) noexcept {
    const std::int32_t wanted = recorder::settings().watch_output;
    held.window_is_open = true;
    held.window_start.note_opening(running.name, count);
    const bool is_there = wanted >= 0 && static_cast<std::size_t>(wanted) < count;
    if (wanted >= 0 && !is_there && count > 0 && !held.knows_outputs) {
        held.knows_outputs = true;
        char line[400];
        std::snprintf(line, sizeof(line), "watch: %s has %zu outputs and no output %d: all of them are watched",
                      running.name.text, count, wanted);
        recorder::warn(line);
    }
    for (std::size_t index = 0; index < count; ++index) {
        if (is_there && index != static_cast<std::size_t>(wanted)) {
            continue;
        }
        Watched* const watched = add_to(held, Target::kWindow, outputs[index].content, outputs[index].device,
                                        running.name.text, -1, static_cast<std::uint32_t>(index));
        if (watched != nullptr) {
            announce(held, *watched, site);
            dump(held, *watched, running.name, false);
        }
    }
}

void close_window(State& held) noexcept {
    held.window_is_open = false;
    for (Watched& watched : held.watched) {
        if (watched.target == Target::kWindow) {
            write_stop(watched, "window");
        }
    }
    held.watched.erase(std::remove_if(held.watched.begin(), held.watched.end(),
                                      [](const Watched& watched) { return watched.target == Target::kWindow; }),
                       held.watched.end());
}

}  // namespace msmemscope::watch
