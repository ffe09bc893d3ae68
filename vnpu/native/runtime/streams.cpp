// Streams and events of a device without time of its own: whatever is put on a stream has happened when the call
// returns. So every stream is complete, and every recorded event is too. Handles are distinct objects, because the
// framework keeps memory by stream.
//
// On a device that has failed nothing completes: whatever waits for it returns the error. Recording an event does not
// fail, because the framework does that in destructors, which cannot throw; waiting for it does.
#include "streams.h"

#include <time.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "devices.h"
#include "kernel_launch.h"
#include "runtime_errors.h"

namespace virtual_npu {
namespace {

constexpr uint64_t kEventMark = 0x6576656e74212121;

struct Event {
    std::atomic<uint64_t> mark;
    std::atomic<uint64_t> recorded_ns;  // 0: not recorded
    std::atomic<int32_t> device;        // the driver's number of the device that recorded it last, -1: none
};

std::atomic<int32_t> next_stream{1};

// Objects behind handles. Their memory is never given back, so that a handle of one that was destroyed can be
// recognised.
template <typename Object, uint64_t kMark>
class Handles {
public:
    static Object* make() {
        const std::lock_guard<std::mutex> lock(guard());
        if (unused().empty()) return new Object{};
        Object* object = unused().back();
        unused().pop_back();
        return object;
    }
    // False if it is none, or no more.
    static bool release(void* handle) {
        auto* object = static_cast<Object*>(handle);
        uint64_t mark = kMark;
        if (object == nullptr || !object->mark.compare_exchange_strong(mark, 0)) return false;
        const std::lock_guard<std::mutex> lock(guard());
        unused().push_back(object);
        return true;
    }

private:
    static std::mutex& guard() {
        static auto* mutex = new std::mutex();
        return *mutex;
    }
    static std::vector<Object*>& unused() {
        static auto* objects = new std::vector<Object*>();
        return *objects;
    }
};

int no_stream(const void* handle) {
    return fail(kAclInvalidParameter, "EE1001: %p is not a stream, or it is destroyed", handle);
}

int no_event(const void* handle) {
    return fail(kAclInvalidParameter, "EE1001: %p is not an event, or it is destroyed", handle);
}

int no_room() { return fail(kAclInvalidParameter, "EE1001: there is no room for the result: a null pointer"); }

Event* event_of(void* handle) {
    auto* event = static_cast<Event*>(handle);
    return event != nullptr && event->mark == kEventMark ? event : nullptr;
}

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

int create_stream(void** stream) {
    if (stream == nullptr) return no_room();
    const int device = current_device();
    if (device < 0) return kAclNoContext;
    auto* made = Handles<Stream, kStreamMark>::make();
    made->number = next_stream++;
    made->device = driver_device(device);
    made->tasks = 0;
    made->mark = kStreamMark;
    *stream = made;
    return kAclSuccess;
}

int destroy_stream(void* stream) {
    if (stream == nullptr) return fail(kAclInvalidParameter, "EE1001: the default stream cannot be destroyed");
    return Handles<Stream, kStreamMark>::release(stream) ? kAclSuccess : no_stream(stream);
}

// An event that was never recorded counts as one of the calling thread's device: the framework's task queue drops the
// record if it has failed.
int event_status(void* handle) {
    const Event* event = event_of(handle);
    if (event == nullptr) return no_event(handle);
    const int32_t device = event->device;
    return device >= 0 ? device_status(device) : virtual_npu_stream_status(nullptr);
}

int create_event(void** event) {
    if (event == nullptr) return no_room();
    auto* made = Handles<Event, kEventMark>::make();
    made->recorded_ns = 0;
    made->device = -1;
    made->mark = kEventMark;
    *event = made;
    return kAclSuccess;
}

int launch_host_function(void* stream, void (*function)(void*), void* data) {
    const int status = virtual_npu_stream_status(stream);
    if (function == nullptr) return fail(kAclInvalidParameter, "EE1001: a function of the host is null");
    if (status == kAclSuccess) function(data);
    return status;
}

}  // namespace
}  // namespace virtual_npu

using virtual_npu::Event;
using virtual_npu::fail;
using virtual_npu::kAclInvalidParameter;
using virtual_npu::kAclSuccess;
using virtual_npu::Stream;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtCreateStream(void** stream) { return virtual_npu::create_stream(stream); }
EXPORTED int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) {
    return virtual_npu::create_stream(stream);
}
EXPORTED int aclrtDestroyStream(void* stream) { return virtual_npu::destroy_stream(stream); }
EXPORTED int aclrtDestroyStreamForce(void* stream) { return virtual_npu::destroy_stream(stream); }

EXPORTED int aclrtStreamGetId(void* stream, int32_t* number) {
    if (number == nullptr) return virtual_npu::no_room();
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    *number = stream == nullptr ? 0 : static_cast<Stream*>(stream)->number;
    return kAclSuccess;
}

EXPORTED int aclrtStreamQuery(void* stream, int32_t* status) {
    if (status == nullptr) return virtual_npu::no_room();
    *status = 0;  // complete
    return virtual_npu_stream_status(stream);
}

EXPORTED int aclrtSynchronizeStream(void* stream) { return virtual_npu_stream_status(stream); }
EXPORTED int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t) { return virtual_npu_stream_status(stream); }
EXPORTED int aclrtSynchronizeDevice() { return virtual_npu_stream_status(nullptr); }
EXPORTED int aclrtSynchronizeDeviceWithTimeout(int32_t) { return virtual_npu_stream_status(nullptr); }
EXPORTED int aclrtSetStreamFailureMode(void*, uint64_t) { return kAclSuccess; }
EXPORTED int aclrtStreamWaitEvent(void* stream, void* event) {
    return virtual_npu::event_of(event) == nullptr ? virtual_npu::no_event(event) : virtual_npu_stream_status(stream);
}

EXPORTED int aclrtCreateEvent(void** event) { return virtual_npu::create_event(event); }
EXPORTED int aclrtCreateEventWithFlag(void** event, uint32_t) { return virtual_npu::create_event(event); }
EXPORTED int aclrtCreateEventExWithFlag(void** event, uint32_t) { return virtual_npu::create_event(event); }

EXPORTED int aclrtDestroyEvent(void* event) {
    return virtual_npu::Handles<Event, virtual_npu::kEventMark>::release(event) ? kAclSuccess
                                                                                : virtual_npu::no_event(event);
}

EXPORTED int aclrtRecordEvent(void* handle, void* stream) {
    Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    event->device = virtual_npu_device_of_stream(stream);
    event->recorded_ns = virtual_npu::now_ns();
    return kAclSuccess;
}

EXPORTED int aclrtResetEvent(void* handle, void*) {
    Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    event->recorded_ns = 0;
    return kAclSuccess;
}

EXPORTED int aclrtQueryEventStatus(void* event, int32_t* status) {
    if (status == nullptr) return virtual_npu::no_room();
    *status = 1;  // complete
    return virtual_npu::event_status(event);
}

EXPORTED int aclrtQueryEventWaitStatus(void* event, int32_t* status) {
    if (status == nullptr) return virtual_npu::no_room();
    *status = 0;  // complete
    return virtual_npu::event_status(event);
}

EXPORTED int aclrtSynchronizeEvent(void* event) { return virtual_npu::event_status(event); }

// The time of the host between the two records: there is no other clock here.
EXPORTED int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
    if (milliseconds == nullptr) return virtual_npu::no_room();
    for (void* handle : {start, end}) {
        if (virtual_npu::event_of(handle) == nullptr) return virtual_npu::no_event(handle);
    }
    const uint64_t begin_ns = static_cast<Event*>(start)->recorded_ns;
    const uint64_t end_ns = static_cast<Event*>(end)->recorded_ns;
    if (begin_ns == 0 || end_ns == 0) return fail(kAclInvalidParameter, "EE1001: an event was not recorded");
    *milliseconds = static_cast<float>(static_cast<double>(static_cast<int64_t>(end_ns - begin_ns)) * 1e-6);
    return kAclSuccess;
}

EXPORTED int aclrtEventGetTimestamp(void* handle, uint64_t* microseconds) {
    const Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    if (microseconds == nullptr) return virtual_npu::no_room();
    *microseconds = event->recorded_ns / 1000;
    return kAclSuccess;
}

// A function of the host that belongs at this place of the stream: everything before it has happened.
EXPORTED int aclrtLaunchCallback(void (*function)(void*), void* data, int32_t, void* stream) {
    return virtual_npu::launch_host_function(stream, function, data);
}
EXPORTED int aclrtLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    return virtual_npu::launch_host_function(stream, function, data);
}
EXPORTED int aclrtSubscribeReport(uint64_t, void*) { return kAclSuccess; }
EXPORTED int aclrtUnSubscribeReport(uint64_t, void*) { return kAclSuccess; }

// Waits for callbacks to run; there never are any. It must not return at once: the caller asks in a loop.
EXPORTED int aclrtProcessReport(int32_t timeout_ms) {
    const int32_t wait_ms = timeout_ms > 0 ? timeout_ms : 100;
    const timespec wait{wait_ms / 1000, (wait_ms % 1000) * 1'000'000L};
    nanosleep(&wait, nullptr);
    return kAclSuccess;
}
