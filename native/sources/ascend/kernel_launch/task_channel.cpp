#include "sources/ascend/kernel_launch/task_channel.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/writer/recorder.h"
#include "sources/ascend/kernel_launch/kernel_reports.h"
#include "sources/ascend/kernel_launch/task_log.h"
#include "sources/ascend/kernel_launch/turn.h"
#include "sources/ascend/npu.h"

namespace msmemscope::kernel_launch {
namespace {

constexpr int kMostDevices = format::kDevicesPerKind;
constexpr std::size_t kBufferBytes = std::size_t{2} << 20U;
constexpr std::size_t kLongestRecord = 64;
constexpr const char* kSource = "observed.kernel_execution";
constexpr const char* kMissing = "unobserved.kernel_execution";

// --- The profiler's interface --------------------------------------------------------------------

struct ProfilerCommand {
    std::uint64_t switches;
    std::uint64_t more_switches;
    std::uint32_t device_count;
    std::uint32_t devices[64];
    std::uint32_t model;
    std::uint32_t type;
    std::uint32_t cache;
    unsigned char parameters[12 + 1024 + 4096];
};
static_assert(sizeof(ProfilerCommand) == 5424);
constexpr std::uint64_t kTaskTimeAndRuntimeTrace = 0x800U | 0x4000000U;
constexpr std::uint32_t kAnyModel = 0xffffffffU;
constexpr std::uint32_t kStart = 1;

// --- State --------------------------------------------------------------------------------------

struct Device {
    ClockReading clock;
    ClockReading clock_before;  // for what happened before the last reading
    char tail[kLongestRecord];  // the begin of a record whose end was not read yet
    std::size_t tail_bytes;
};

// A record whose launch is not known: it may be read before the launching thread has come to report it.
struct EarlyRecord {
    int device;
    TaskMoment moment;
};
constexpr std::size_t kMostEarlyRecords = 1024;

// All of it belongs to the process with this epoch; in a forked child there is no reader, and it is made anew.
struct State {
    std::atomic<std::uint64_t> epoch;
    pid_t process;
    std::atomic<bool> tried[kMostDevices];  // the opening is done, with success or without
    std::atomic<bool> opened[kMostDevices];
    std::atomic<bool> stop;
    bool has_reader;
    sem_t wake;
    sem_t ended;
    char* buffer;
    Device devices[kMostDevices];
    EarlyRecord early[kMostEarlyRecords];
    std::size_t early_count;
};
State state;
// The epoch of the process that is opening or closing; one that is not this process's holds nothing.
TurnState busy;
std::atomic<bool> process_ends{false};

// --- The clock ----------------------------------------------------------------------------------

void read_clock(int number, Device& device) noexcept {
    ClockReading reading{0, 0, 0};
    if (task_log::read_clock(number, reading)) {
        device.clock_before = device.clock.frequency_khz == 0 ? reading : device.clock;
        device.clock = reading;
    }
}

// The clocks of host and device drift apart.
void keep_clock(int number, Device& device) noexcept {
    if (device.clock.frequency_khz != 0 && task_log::realtime_now() - device.clock.realtime_ns > task_log::kSecond) {
        read_clock(number, device);
    }
}

// 0 (now) if the device's clock cannot be read.
std::uint64_t time_of(const Device& device, std::uint64_t counter) noexcept {
    if (device.clock.frequency_khz == 0) {
        return 0;
    }
    return realtime_of(counter < device.clock.counter ? device.clock_before : device.clock, counter);
}

// --- Reading ------------------------------------------------------------------------------------

// False if no launch of that task is known.
bool record_moment(const RecordingScope& scope, int number, const TaskMoment& moment) noexcept {
    const TaskKey key{static_cast<std::uint16_t>(number), moment.has_stream, moment.stream, moment.task};
    PendingTask task{};
    if (!(moment.ends ? pending_tasks().take(key, task) : pending_tasks().find(key, task))) {
        return false;
    }
    Event event{moment.ends ? format::EventKind::kKernelExecuteEnd : format::EventKind::kKernelExecuteStart};
    event.device = npu(number);
    event.name_id = task.name_id;
    event.extra = static_cast<std::uint64_t>(task.stream) << 32U | moment.task;
    event.timestamp_ns = time_of(state.devices[number], moment.counter);
    recorder::append(scope, event);
    return true;
}

void retry_early_records() noexcept {
    if (state.early_count == 0) {
        return;
    }
    const RecordingScope scope(false);
    for (std::size_t index = 0; scope && index < state.early_count; ++index) {
        record_moment(scope, state.early[index].device, state.early[index].moment);
    }
    state.early_count = 0;
}

// Takes in whole records; returns how many bytes of them there are.
std::size_t take_records(int number, const char* records, std::size_t bytes) noexcept {
    const LogFormat format = log_format();
    const std::size_t each = record_bytes(format);
    const bool expanded = streams_are_expanded();
    const RecordingScope scope(false);
    std::size_t place = 0;
    for (; place + each <= bytes; place += each) {
        TaskMoment moment{};
        if (scope && read_log_record(format, expanded, records + place, moment) &&
            !record_moment(scope, number, moment) && state.early_count < kMostEarlyRecords) {
            state.early[state.early_count++] = {number, moment};
        }
    }
    return place;
}

// Bytes read, 0 if there was nothing.
std::size_t read_log(int number) noexcept {
    Device& device = state.devices[number];
    std::memcpy(state.buffer, device.tail, device.tail_bytes);
    const int read = task_log::read(number, state.buffer + device.tail_bytes, kBufferBytes - kLongestRecord);
    if (read <= 0) {
        return 0;
    }
    const std::size_t bytes = device.tail_bytes + static_cast<std::size_t>(read);
    const std::size_t taken = take_records(number, state.buffer, bytes);
    device.tail_bytes = bytes - taken;
    std::memcpy(device.tail, state.buffer + taken, device.tail_bytes);
    return static_cast<std::size_t>(read);
}

void forget_devices() noexcept {
    for (int number = 0; number < kMostDevices; ++number) {
        state.opened[number].store(false, std::memory_order_relaxed);
        state.tried[number].store(false, std::memory_order_relaxed);
    }
}

template <typename Action>
void for_each_opened(Action action) noexcept {
    for (int number = 0; number < kMostDevices; ++number) {
        if (state.opened[number].load(std::memory_order_acquire)) {
            action(number);
        }
    }
}

// The most bytes that a device had.
std::size_t read_all_logs() noexcept {
    retry_early_records();
    std::size_t most = 0;
    for_each_opened([&](int number) noexcept {
        keep_clock(number, state.devices[number]);
        const std::size_t bytes = read_log(number);
        most = bytes > most ? bytes : most;
    });
    return most;
}

// Returns when the time is over or somebody wants the reader to end.
void wait_ms(unsigned milliseconds) noexcept {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += static_cast<long>(milliseconds) * 1000000L;
    until.tv_sec += until.tv_nsec / static_cast<long>(task_log::kSecond);
    until.tv_nsec %= static_cast<long>(task_log::kSecond);
    sem_timedwait(&state.wake, &until);
}

void* read_logs(void*) noexcept {
    constexpr unsigned kLongestWaitMs = 20;
    constexpr int kMostRounds = 1000;  // of a log that does not end, when it is to be closed
    unsigned wait = 1;
    while (!state.stop.load(std::memory_order_acquire)) {
        const std::size_t bytes = read_all_logs();
        wait = bytes > 0 ? 1 : (wait * 2 < kLongestWaitMs ? wait * 2 : kLongestWaitMs);
        if (bytes < kBufferBytes / 2) {
            wait_ms(wait);
        }
    }
    for (int round = 0; round < kMostRounds && read_all_logs() > 0; ++round) {
    }
    for_each_opened(&task_log::stop);
    for (int round = 0; round < kMostRounds && read_all_logs() > 0; ++round) {
    }
    retry_early_records();
    sem_post(&state.ended);
    return nullptr;
}

bool start_reader() noexcept {
    if (state.has_reader) {
        return true;
    }
    if (state.buffer == nullptr) {
        void* const memory = mmap(nullptr, kBufferBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            return false;
        }
        state.buffer = static_cast<char*>(memory);
    }
    state.stop.store(false, std::memory_order_relaxed);
    sem_init(&state.wake, 0, 0);
    sem_init(&state.ended, 0, 0);
    // The program's signals are for the program's threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread{};
    state.has_reader = pthread_create(&thread, &attributes, &read_logs, nullptr) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (state.has_reader) {
        pthread_setname_np(thread, "msmemscope-npu");
    }
    return state.has_reader;
}

// --- Opening and closing ------------------------------------------------------------------------

void note_missing(int device, const char* what, int code) noexcept {
    char text[160];
    std::snprintf(text, sizeof(text), code == 0 ? "device %d: %s" : "device %d: %s (%d)", device, what, code);
    recorder::note_fact(kMissing, text);
}

void note_opened() noexcept {
    char text[512] = "log of tasks of device";
    std::size_t length = std::strlen(text);
    for_each_opened([&](int number) noexcept {
        if (length + 16 < sizeof(text)) {
            length += static_cast<std::size_t>(std::snprintf(text + length, sizeof(text) - length, " %d", number));
        }
    });
    recorder::note_fact(kSource, text);
}

// Tells the runtime to report the tasks that it gives to the device, and their names.
bool command_runtime(int device) noexcept {
    static ProfilerCommand command;  // too large for a small thread's stack; used in turns
    std::memset(static_cast<void*>(&command), 0, sizeof(command));
    command.switches = kTaskTimeAndRuntimeTrace;
    command.device_count = 1;
    command.devices[0] = static_cast<std::uint32_t>(device);
    command.model = kAnyModel;
    command.type = kStart;
    const std::int32_t result = task_log::give_command(&command, sizeof(command));
    if (result == task_log::kIsMissing) {
        note_missing(device, "libprofapi.so has no profSetProfCommand", 0);
    } else if (result != 0) {
        note_missing(device, "the runtime does not report tasks", result);
    }
    return result == 0;
}

void open_log(int number) noexcept {
    // Without names no launch is recorded, and then no execution is either.
    if (!command_runtime(number)) {
        return;
    }
    if (!task_log::find_driver()) {
        note_missing(number, "the driver has no log of tasks", 0);
        return;
    }
    const int result = task_log::start(number);
    if (result == task_log::kIsHeld) {
        note_missing(number, "a thread does not come back from the driver's log of tasks, or did not before a fork", 0);
        return;
    }
    if (result != 0) {
        note_missing(number, "the log of tasks is not given, another profiler may hold it", result);
        return;
    }
    Device& device = state.devices[number];
    std::memset(static_cast<void*>(&device), 0, sizeof(device));
    read_clock(number, device);
    if (device.clock.frequency_khz == 0) {
        note_missing(number, "the device's clock cannot be read: times are those of reading", 0);
    }
    if (!start_reader()) {
        note_missing(number, "no thread to read the log of tasks", 0);
        task_log::stop(number);
        return;
    }
    state.opened[number].store(true, std::memory_order_release);
    note_opened();
}

void close_at_exit() {
    process_ends.store(true, std::memory_order_relaxed);
    close_task_channels();
}

// In a new process: the first one, or a forked child, whose parent has the reader.
void take_possession(std::uint64_t epoch) noexcept {
    static bool will_close_at_exit = false;
    if (!will_close_at_exit) {
        will_close_at_exit = std::atexit(&close_at_exit) == 0;
    }
    task_log::keep_out_of_forks();
    if (state.process != getpid()) {
        if (state.process != 0) {
            pending_tasks().clear();
        }
        state.process = getpid();
        state.has_reader = false;
        state.early_count = 0;
        forget_devices();
    }
    state.epoch.store(epoch, std::memory_order_release);
}

void report_unseen_once() noexcept {
    static std::atomic<bool> was_reported{false};
    if (!was_reported.exchange(true)) {
        recorder::warn("launches are not recorded: opening the log of tasks takes another thread more than 2 seconds");
    }
}

}  // namespace

void open_task_channel(int device) noexcept {
    if (device < 0 || device >= kMostDevices) {
        return;
    }
    const std::uint64_t epoch = recorder::epoch();
    if (epoch == 0 || process_ends.load(std::memory_order_relaxed) ||
        (state.epoch.load(std::memory_order_acquire) == epoch && state.tried[device].load(std::memory_order_acquire))) {
        return;
    }
    // The runtime reports no launch before it is told to: those of other threads wait until it is.
    const Turn turn(busy, epoch);
    if (!turn) {
        report_unseen_once();
        return;
    }
    if (process_ends.load(std::memory_order_relaxed)) {
        return;
    }
    if (state.epoch.load(std::memory_order_relaxed) != epoch) {
        take_possession(epoch);
    }
    if (!state.tried[device].load(std::memory_order_relaxed)) {
        open_log(device);
        state.tried[device].store(true, std::memory_order_release);
    }
}

void close_task_channels() noexcept {
    const std::uint64_t epoch = recorder::epoch();
    if (epoch == 0 || state.epoch.load(std::memory_order_acquire) != epoch) {
        return;
    }
    const Turn turn(busy, epoch);
    if (!turn) {
        recorder::warn("the log of tasks is not read to its end: another thread is opening it and does not come back");
        return;
    }
    if (state.has_reader) {
        state.stop.store(true, std::memory_order_release);
        sem_post(&state.wake);
        timespec until{};
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 2;
        int waited = 0;
        do {
            waited = sem_timedwait(&state.ended, &until);
        } while (waited != 0 && errno == EINTR);
        if (waited != 0) {
            // It is stuck in the driver; it stays, and nothing is opened again.
            recorder::warn("the log of tasks was not read to its end within 2 seconds: ends of kernels may be missing");
            return;
        }
        state.has_reader = false;
    }
    forget_devices();
}

}  // namespace msmemscope::kernel_launch
