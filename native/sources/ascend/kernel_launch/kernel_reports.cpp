#include "sources/ascend/kernel_launch/kernel_reports.h"

#include <atomic>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "interpose/patcher.h"
#include "sources/ascend/kernel_launch/kernel_launch.h"
#include "sources/ascend/kernel_launch/kernel_names.h"
#include "sources/ascend/kernel_launch/turn.h"
#include "sources/ascend/npu.h"

namespace msmemscope::kernel_launch {
namespace {

// Types of callbacks.
constexpr std::int32_t kReportCompact = 4;
constexpr std::int32_t kReportApi = 9;
constexpr std::int32_t kGetHashId = 12;

// While nothing was found so often, launches wait for a search of another thread.
constexpr unsigned kAttemptsWaitedFor = 1024;

constexpr std::int32_t kNoError = 0;
constexpr std::int32_t kWrongReport = 5;

PendingTasks tasks;
std::atomic<bool> streams_expanded{false};
std::atomic<bool> registered{false};
std::atomic<unsigned> attempts{0};
TurnState registering;
__attribute__((tls_model("initial-exec"))) __thread bool is_registering;

std::uint64_t take_name(const char* text, std::size_t bytes) noexcept {
    if (text == nullptr) {
        return 0;
    }
    const KeepErrno keep_errno;
    const std::uint64_t id = name_hash(text, bytes);
    if (!kernel_names().add(id, text, bytes)) {
        static std::atomic<bool> was_reported{false};
        if (id != 0 && !was_reported.exchange(true)) {
            recorder::warn("no room for further names of kernels: some launches have none");
        }
    }
    return id;
}

void record_launch(const TaskTrack& track) noexcept {
    const auto device = static_cast<int>(track.device);
    if (!observes_npu(device)) {
        return;
    }
    const KeepErrno keep_errno;
    note_launched_kernel(track.kernel_name, npu(device));
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    const auto task = static_cast<std::uint16_t>(track.task);
    Event event{format::EventKind::kKernelLaunch};
    event.device = npu(device);
    event.name_id = kernel_names().string_id(scope, track.kernel_name);
    event.extra = static_cast<std::uint64_t>(track.stream) << 32U | task;
    event.timestamp_ns = launch_began_ns();
    if (recorder::append(scope, event) != 0) {
        tasks.put({static_cast<std::uint16_t>(device), log_format() == LogFormat::kLong, track.stream, task},
                  {event.name_id, track.stream});
    }
}

std::int32_t take_compact_report(std::uint32_t, const void* data, std::uint32_t bytes) noexcept {
    TaskTrack track{};
    switch (read_report(data, bytes, track)) {
        case ReportKind::kInvalid:
            return kWrongReport;
        case ReportKind::kStreamsExpanded:
            streams_expanded.store(true, std::memory_order_relaxed);
            break;
        case ReportKind::kTask:
            if (track.kernel_name != 0 && is_collected()) {
                record_launch(track);
            }
            break;
        case ReportKind::kOther:
            break;
    }
    return kNoError;
}

std::int32_t take_api_report(std::uint32_t, const void*) noexcept { return kNoError; }
std::int32_t take_control(std::uint32_t, void*, std::uint32_t) noexcept { return kNoError; }

}  // namespace

bool is_wanted() noexcept {
    const Settings& settings = recorder::settings();
    return settings.collect_kernels && (settings.events & kSelectLaunch) != 0;
}

bool is_collected() noexcept { return recorder::settings().collect_kernels && recorder::is_selected(kSelectLaunch); }

PendingTasks& pending_tasks() noexcept { return tasks; }
bool streams_are_expanded() noexcept { return streams_expanded.load(std::memory_order_relaxed); }

LogFormat log_format() noexcept {
    static std::atomic<int> known{-1};
    const int format = known.load(std::memory_order_relaxed);
    if (__builtin_expect(format >= 0, 1)) {
        return static_cast<LogFormat>(format);
    }
    const auto name = reinterpret_cast<const char* (*)()>(find_function("aclrtGetSocName"));
    if (name == nullptr) {
        return LogFormat::kLong;
    }
    const LogFormat found = format_of_chip(name());
    known.store(static_cast<int>(found), std::memory_order_relaxed);
    return found;
}

namespace {

// False if the interface is not loaded. is_first: then a fact says so.
bool search_and_register(bool is_first) noexcept {
    const auto enroll = reinterpret_cast<std::int32_t (*)(std::int32_t, void*, std::uint32_t)>(
        find_function("MsprofRegisterProfileCallback"));
    if (enroll == nullptr) {
        if (is_first) {
            recorder::note_fact("unobserved.kernel_launch",
                                "libprofapi.so is not loaded: names of kernels are unknown");
        }
        return false;
    }
    // With a handler of control messages in place, reports go to callbacks instead of to the built-in profiler.
    const auto take_over = reinterpret_cast<std::int32_t (*)(std::int32_t (*)(std::uint32_t, void*, std::uint32_t))>(
        find_function("profRegCtrlCallback"));
    if (take_over != nullptr) {
        take_over(&take_control);
    }
    const bool accepted = enroll(kGetHashId, reinterpret_cast<void*>(&take_name), sizeof(void*)) == 0 &&
                          enroll(kReportCompact, reinterpret_cast<void*>(&take_compact_report), sizeof(void*)) == 0;
    enroll(kReportApi, reinterpret_cast<void*>(&take_api_report), sizeof(void*));
    if (!accepted) {
        recorder::note_fact("unobserved.kernel_launch",
                            "libprofapi.so takes no callbacks: names of kernels are unknown");
    }
    return true;
}

}  // namespace

bool register_callbacks() noexcept {
    if (registered.load(std::memory_order_acquire)) {
        return true;
    }
    // The library may call functions of its own that are hooked: they must not wait for this thread.
    if (is_registering) {
        return false;
    }
    // A search that finds nothing is repeated ever more rarely.
    const unsigned attempt = attempts.fetch_add(1, std::memory_order_relaxed);
    const bool searches = (attempt & (attempt - 1)) == 0;
    if (!searches && attempt >= kAttemptsWaitedFor) {
        return false;
    }
    if (recorder::epoch() == 0) {
        const RecordingScope made_ready(false);  // a forked child notices here that it is one
    }
    // A report that comes before the callbacks are in place is lost: other threads wait until they are.
    const Turn turn(registering, recorder::epoch());
    if (!turn || !searches || registered.load(std::memory_order_relaxed)) {
        return registered.load(std::memory_order_acquire);
    }
    is_registering = true;
    const bool done = search_and_register(attempt == 0);
    is_registering = false;
    registered.store(done, std::memory_order_release);
    return done;
}

}  // namespace msmemscope::kernel_launch
