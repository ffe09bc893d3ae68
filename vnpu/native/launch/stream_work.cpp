#include "stream_work.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "device_failures.h"
#include "graph.h"
#include "kernel_launch.h"
#include "settings.h"

namespace virtual_npu {
namespace {

std::mutex guard;
std::condition_variable progress;  // something happened that somebody may wait for
std::atomic<uint32_t> awaited{0};  // streams whose first work is not ready, and threads in wait_for()
thread_local const Stream* at_work = nullptr;

std::vector<Stream*>& all_streams() {  // with the lock held
    static auto* streams = new std::vector<Stream*>();
    return *streams;
}

bool has_failed(const Stream& stream) {
    return virtual_npu_device_failure(static_cast<int32_t>(stream.device)) != nullptr;
}

bool is_ready(const Stream& stream, const StreamWork& work) { return work.is_ready() || has_failed(stream); }

bool is_idle_locked(const Stream& stream) { return stream.waiting.empty() && !stream.is_working; }

// Whether all streams of a device are, but for that whose work the calling thread does.
bool is_idle_but_for_caller(uint32_t device) {
    for (const Stream* stream : all_streams()) {
        if (stream->device == device && stream != at_work && !is_idle_locked(*stream)) return false;
    }
    return true;
}

void do_work(const Stream& stream, StreamWork& work) {
    if (has_failed(stream) && !work.runs_on_failed_device()) return;
    const Stream* before = at_work;
    at_work = &stream;
    work.run();
    at_work = before;
}

// Does what can be done now. The lock is held at the begin and at the end, and not while anything is done.
void do_waiting_work(Stream& stream, std::unique_lock<std::mutex>& lock) {
    if (stream.is_working) return;
    stream.is_working = true;
    while (!stream.waiting.empty() && is_ready(stream, *stream.waiting.front())) {
        StreamWorkPointer work = std::move(stream.waiting.front());
        stream.waiting.pop_front();
        lock.unlock();
        do_work(stream, *work);
        work.reset();  // what it holds goes, perhaps the last of it, without the lock
        lock.lock();
    }
    stream.is_working = false;
    if (stream.waiting.empty() && (stream.detours.fetch_and(~uint32_t{kWorkWaits}) & kWorkWaits) != 0) --awaited;
    progress.notify_all();
}

// std::condition_variable::wait is another function since GCC 12, which the program's libstdc++ may not have.
template <typename Ready>
void wait_on(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, Ready ready) {
    while (!ready()) pthread_cond_wait(condition.native_handle(), lock.mutex()->native_handle());
}

template <typename Ready>
bool wait_until(std::unique_lock<std::mutex>& lock, int64_t timeout_ms, Ready ready) {
    ++awaited;
    bool is_done = true;
    if (timeout_ms < 0) {
        wait_on(progress, lock, ready);
    } else {
        is_done = progress.wait_for(lock, std::chrono::milliseconds(timeout_ms), ready);
    }
    --awaited;
    return is_done;
}

bool is_ending = false;

void work_on(Stream& stream) {
    std::unique_lock<std::mutex> lock(guard);
    while (true) {
        wait_on(stream.arrival, lock, [&stream] { return !stream.waiting.empty() && !is_ending; });
        wait_until(lock, -1, [&stream] { return stream.waiting.empty() || is_ready(stream, *stream.waiting.front()); });
        do_waiting_work(stream, lock);
    }
}

// What kernels need is about to be destroyed: nothing more begins, and what has begun comes to its end.
void end_all_work() {
    std::unique_lock<std::mutex> lock(guard);
    is_ending = true;
    for (Stream* stream : all_streams()) stream->waiting.clear();
    constexpr int64_t kLongestWaitMs = 10'000;
    wait_until(lock, kLongestWaitMs, [] {
        for (const Stream* stream : all_streams()) {
            if (stream->is_working) return false;
        }
        return true;
    });
}

// With the lock held.
void start_worker(Stream& stream) {
    static const int registered = std::atexit(end_all_work);
    static_cast<void>(registered);
    stream.has_worker = true;
    std::thread([&stream] { work_on(stream); }).detach();
}

}  // namespace

std::unique_lock<std::mutex> lock_streams() { return std::unique_lock<std::mutex>(guard); }

const Stream* stream_at_work() { return at_work; }

Stream* stream_of(const void* handle) {
    if (handle != nullptr) return static_cast<Stream*>(const_cast<void*>(handle));
    const int32_t device = virtual_npu_current_driver_device();
    if (device < 0) return nullptr;
    static auto* streams = [] {
        auto* made = new Stream[kMostDevices]{};
        for (uint32_t number = 0; number < kMostDevices; ++number) prepare_stream(made[number], 0, number);
        return made;
    }();
    return &streams[device];
}

void prepare_stream(Stream& stream, int32_t number, uint32_t device) {
    const std::lock_guard<std::mutex> lock(guard);
    stream.number = number;
    stream.device = device;
    stream.tasks = 0;
    stream.detours = settings().asynchronous ? uint32_t{kIsAsynchronous} : 0;
    if (!stream.is_known) all_streams().push_back(&stream);
    stream.is_known = true;
    stream.mark = kStreamMark;
}

int put_work(Stream& stream, StreamWorkPointer work) {
    std::unique_lock<std::mutex> lock(guard);
    if (stream.graph != nullptr) return stream.graph->add(stream, std::move(work));
    if (stream.update != nullptr) {
        if (!work->is_kernel()) return kTaskTypeUnsupported;
        stream.update->work.push_back(std::move(work));
        return kRuntimeSuccess;
    }
    if (settings().asynchronous) {
        stream.waiting.push_back(std::move(work));
        if (!stream.has_worker) start_worker(stream);
        stream.arrival.notify_one();
        return kRuntimeSuccess;
    }
    if (is_idle_locked(stream)) {
        if (is_ready(stream, *work)) {
            lock.unlock();
            do_work(stream, *work);
            return kRuntimeSuccess;
        }
        ++awaited;
        stream.detours |= kWorkWaits;
    }
    stream.waiting.push_back(std::move(work));
    // What it waits for may have happened before somebody could know that it is awaited.
    do_waiting_work(stream, lock);
    return kRuntimeSuccess;
}

void something_happened() {
    if (awaited.load() == 0) return;
    std::unique_lock<std::mutex> lock(guard);
    progress.notify_all();
    if (settings().asynchronous) return;  // each stream's thread waits for itself
    const std::vector<Stream*> streams = all_streams();
    for (Stream* stream : streams) {
        if (!stream->waiting.empty()) do_waiting_work(*stream, lock);
    }
}

bool wait_for_stream(Stream& stream, int64_t timeout_ms) {
    if (runs_now(&stream)) return true;
    std::unique_lock<std::mutex> lock(guard);
    return wait_until(lock, timeout_ms, [&stream] { return is_idle_locked(stream); });
}

bool wait_for_device(uint32_t device, int64_t timeout_ms) {
    std::unique_lock<std::mutex> lock(guard);
    return wait_until(lock, timeout_ms, [device] { return is_idle_but_for_caller(device); });
}

void wait_for_all_devices() {
    std::unique_lock<std::mutex> lock(guard);
    wait_until(lock, -1, [] {
        for (uint32_t device = 0; device < kMostDevices; ++device) {
            if (!is_idle_but_for_caller(device)) return false;
        }
        return true;
    });
}

bool wait_for(Condition condition, const void* context, int64_t timeout_ms) {
    if (condition(context)) return true;
    std::unique_lock<std::mutex> lock(guard);
    return wait_until(lock, timeout_ms, [condition, context] { return condition(context); });
}

bool is_idle(Stream& stream) {
    if (runs_now(&stream)) return true;
    const std::lock_guard<std::mutex> lock(guard);
    return is_idle_locked(stream);
}

void discard_work(Stream& stream) {
    if (stream.detours == 0) return;
    std::deque<StreamWorkPointer> discarded;  // destroyed without the lock
    std::unique_lock<std::mutex> lock(guard);
    discarded.swap(stream.waiting);
    if ((stream.detours.fetch_and(~uint32_t{kWorkWaits}) & kWorkWaits) != 0) --awaited;
    progress.notify_all();
    lock.unlock();
}

}  // namespace virtual_npu
