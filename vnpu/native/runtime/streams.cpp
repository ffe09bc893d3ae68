// Streams and events of a device without time of its own: whatever is put on a stream has happened when the call
// returns. So every stream is complete, and every recorded event is too. Handles are distinct objects, because the
// framework keeps memory by stream.
#include "streams.h"

#include <time.h>

#include <atomic>
#include <cstdint>

#include "devices.h"
#include "runtime_errors.h"

namespace virtual_npu {
namespace {

struct Event {
    std::atomic<uint64_t> recorded_ns;  // 0: not recorded
};

std::atomic<int32_t> next_stream{1};

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

int create_stream(void** stream) {
    const int device = current_device();
    if (device < 0) return kAclNoContext;
    *stream = new Stream{next_stream++, driver_device(device), {0}};
    return kAclSuccess;
}

int destroy_stream(void* stream) {
    if (stream == nullptr) return fail(kAclInvalidParameter, "EE1001: the default stream cannot be destroyed");
    delete static_cast<Stream*>(stream);
    return kAclSuccess;
}

int create_event(void** event) {
    *event = new Event{};
    return kAclSuccess;
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
    *number = stream == nullptr ? 0 : static_cast<Stream*>(stream)->number;
    return kAclSuccess;
}

EXPORTED int aclrtStreamQuery(void*, int32_t* status) {
    *status = 0;  // complete
    return kAclSuccess;
}

EXPORTED int aclrtSynchronizeStream(void*) { return kAclSuccess; }
EXPORTED int aclrtSynchronizeStreamWithTimeout(void*, int32_t) { return kAclSuccess; }
EXPORTED int aclrtSynchronizeDevice() { return kAclSuccess; }
EXPORTED int aclrtSynchronizeDeviceWithTimeout(int32_t) { return kAclSuccess; }
EXPORTED int aclrtSetStreamFailureMode(void*, uint64_t) { return kAclSuccess; }
EXPORTED int aclrtStreamWaitEvent(void*, void*) { return kAclSuccess; }

EXPORTED int aclrtCreateEvent(void** event) { return virtual_npu::create_event(event); }
EXPORTED int aclrtCreateEventWithFlag(void** event, uint32_t) { return virtual_npu::create_event(event); }
EXPORTED int aclrtCreateEventExWithFlag(void** event, uint32_t) { return virtual_npu::create_event(event); }

EXPORTED int aclrtDestroyEvent(void* event) {
    delete static_cast<Event*>(event);
    return kAclSuccess;
}

EXPORTED int aclrtRecordEvent(void* event, void*) {
    static_cast<Event*>(event)->recorded_ns = virtual_npu::now_ns();
    return kAclSuccess;
}

EXPORTED int aclrtResetEvent(void* event, void*) {
    static_cast<Event*>(event)->recorded_ns = 0;
    return kAclSuccess;
}

EXPORTED int aclrtQueryEventStatus(void*, int32_t* status) {
    *status = 1;  // complete
    return kAclSuccess;
}

EXPORTED int aclrtQueryEventWaitStatus(void*, int32_t* status) {
    *status = 0;  // complete
    return kAclSuccess;
}

EXPORTED int aclrtSynchronizeEvent(void*) { return kAclSuccess; }

// The time of the host between the two records: there is no other clock here.
EXPORTED int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
    const uint64_t begin_ns = static_cast<Event*>(start)->recorded_ns;
    const uint64_t end_ns = static_cast<Event*>(end)->recorded_ns;
    if (begin_ns == 0 || end_ns == 0) return fail(kAclInvalidParameter, "EE1001: an event was not recorded");
    *milliseconds = static_cast<float>(static_cast<double>(static_cast<int64_t>(end_ns - begin_ns)) * 1e-6);
    return kAclSuccess;
}

EXPORTED int aclrtEventGetTimestamp(void* event, uint64_t* microseconds) {
    *microseconds = static_cast<Event*>(event)->recorded_ns / 1000;
    return kAclSuccess;
}

// A function of the host that belongs at this place of the stream: everything before it has happened.
EXPORTED int aclrtLaunchCallback(void (*function)(void*), void* data, int32_t, void*) {
    function(data);
    return kAclSuccess;
}
EXPORTED int aclrtLaunchHostFunc(void*, void (*function)(void*), void* data) {
    function(data);
    return kAclSuccess;
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
