// Streams. In the synchronous mode, whatever is put on a stream has happened when the call returns: every stream is
// complete, but for one that waits for an event of a graph or that is captured into one. In the asynchronous mode a
// stream has a thread. Handles are distinct objects, because the framework keeps memory by stream.
//
// On a device that has failed nothing completes: whatever waits for it returns the error.
#include "streams.h"

#include <time.h>

#include <cstdint>
#include <string>

#include "device_failures.h"
#include "devices.h"
#include "graph.h"
#include "handles.h"
#include "kernel_launch.h"
#include "on_stream.h"
#include "runtime_errors.h"
#include "stream_work.h"

namespace virtual_npu {

int no_stream(const void* handle) {
    return fail(kAclInvalidParameter, "EE1001: %p is not a stream, or it is destroyed", handle);
}

int no_room() { return fail(kAclInvalidParameter, "EE1001: there is no room for the result: a null pointer"); }

int stream_result(int status, const char* what) {
    const char* why = "";
    switch (status) {
        case kAclSuccess:
            return status;
        case kGraphDependencyMissing:
            why = "a captured stream waits for an event that is not recorded in the same capture";
            break;
        case kGraphUnjoined:
            why = "a stream that was captured along with the first one is not waited for at the end";
            break;
        case kGraphCaptured:
            why = "the graph is captured just now, or was captured already";
            break;
        case kStreamCaptured:
            why = "the stream is captured";
            break;
        case kEventCaptured:
            why = "the event is recorded on a stream that is captured";
            break;
        case kStreamNotCaptured:
            why = "the stream is not captured";
            break;
        case kCaptureModeForbids:
            why = "the mode of a capture that goes on forbids it (aclmdlRICaptureThreadExchangeMode)";
            break;
        case kDefaultStreamCaptured:
            why = "the default stream cannot be captured";
            break;
        case kCaptureConflict:
            why = "the stream and the event belong to different captures";
            break;
        case kTaskGroupStatus:
            why = "groups of tasks are not begun and ended in pairs, or an update has not as many tasks as its group";
            break;
        case kTaskGroupInterrupted:
            why = "something was put on another captured stream while a group of tasks was recorded";
            break;
        case kCaptureUnmatched:
            why = "the capture did not begin on this stream";
            break;
        case kGraphRunning:
            why = "the graph is replayed just now";
            break;
        case kCaptureWrongThread:
            why = "the capture began in another thread, and its mode is not relaxed";
            break;
        case kTaskTypeUnsupported:
            why = "only operators can be in a group of tasks";
            break;
        case kCaptureInvalidated:
            why = "the capture has failed before";
            break;
        default:
            why = "an argument is not accepted";
    }
    return fail(static_cast<AclError>(status), "EE1001: %s: %s", what, why);
}

namespace {

class FunctionWork final : public StreamWork {
public:
    FunctionWork(std::function<int()> function, Context* context, uint32_t device)
        : function_(std::move(function)), context_(context), device_(static_cast<int32_t>(device)) {}
    void run() override {
        Context* before = current_context();
        if (context_ != before) set_current_context(context_);
        if (function_() != kAclSuccess) virtual_npu_later_task_failed(device_, aclGetRecentErrMsg());
        if (context_ != before) set_current_context(before);
    }

private:
    const std::function<int()> function_;
    Context* const context_;
    const int32_t device_;
};

std::atomic<int32_t> next_stream{1};

int create_stream(void** stream) {
    if (stream == nullptr) return no_room();
    const int device = current_device();
    if (device < 0) return kAclNoContext;
    auto* made = Handles<Stream, kStreamMark>::make();
    prepare_stream(*made, next_stream++, driver_device(device));
    *stream = made;
    return kAclSuccess;
}

// Null handles are answered by the caller.
int refused_to_wait(void* handle, const char* what) {
    if (!is_stream(handle)) return no_stream(handle);
    const Stream* stream = stream_of(handle);
    return stream == nullptr ? static_cast<int>(kAclSuccess) : stream_result(Graph::refuse_to_wait(stream), what);
}

int destroy_stream(void* handle, bool forget) {
    if (handle == nullptr) return fail(kAclInvalidParameter, "EE1001: the default stream cannot be destroyed");
    const int status = refused_to_wait(handle, "a stream is destroyed");
    if (status != kAclSuccess) return status;
    auto* stream = static_cast<Stream*>(handle);
    if (!forget && stream->detours & kIsAsynchronous) wait_for_stream(*stream, -1);
    discard_work(*stream);
    return Handles<Stream, kStreamMark>::release(handle) ? kAclSuccess : no_stream(handle);
}

int synchronize_stream(void* handle, int32_t timeout_ms) {
    const int status = refused_to_wait(handle, "a stream is waited for");
    if (status != kAclSuccess) return status;
    Stream* stream = stream_of(handle);
    if (stream != nullptr && !wait_for_stream(*stream, timeout_ms)) {
        return fail(kAclStreamTimeout, "EE9999: a stream has not come to its end after %d ms", timeout_ms);
    }
    return virtual_npu_stream_status(handle);
}

int synchronize_device(int32_t timeout_ms) {
    const int32_t device = virtual_npu_current_driver_device();
    if (device >= 0) {
        const auto number = static_cast<uint32_t>(device);
        const int status = stream_result(Graph::refuse_to_wait_for_device(number), "a device is waited for");
        if (status != kAclSuccess) return status;
        if (!wait_for_device(number, timeout_ms)) {
            return fail(kAclStreamTimeout, "EE9999: a device has not come to its end after %d ms", timeout_ms);
        }
    }
    return virtual_npu_stream_status(nullptr);
}

int launch_host_function(void* stream, void (*function)(void*), void* data) {
    const int status = virtual_npu_stream_status(stream);
    if (function == nullptr) return fail(kAclInvalidParameter, "EE1001: a function of the host is null");
    if (status != kAclSuccess) return status;
    return on_stream(stream, [function, data] {
        function(data);
        return static_cast<int>(kAclSuccess);
    });
}

}  // namespace

int put_function(Stream& stream, std::function<int()> function) {
    return stream_result(
        put_work(stream, std::make_shared<FunctionWork>(std::move(function), current_context(), stream.device)),
        "something is put on a stream");
}

}  // namespace virtual_npu

using virtual_npu::kAclSuccess;
using virtual_npu::Stream;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtCreateStream(void** stream) { return virtual_npu::create_stream(stream); }
EXPORTED int aclrtCreateStreamWithConfig(void** stream, uint32_t, uint32_t) {
    return virtual_npu::create_stream(stream);
}
EXPORTED int aclrtDestroyStream(void* stream) { return virtual_npu::destroy_stream(stream, false); }
EXPORTED int aclrtDestroyStreamForce(void* stream) { return virtual_npu::destroy_stream(stream, true); }

EXPORTED int aclrtStreamGetId(void* stream, int32_t* number) {
    if (number == nullptr) return virtual_npu::no_room();
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    *number = stream == nullptr ? 0 : static_cast<Stream*>(stream)->number;
    return kAclSuccess;
}

EXPORTED int aclrtStreamQuery(void* handle, int32_t* status) {
    if (status == nullptr) return virtual_npu::no_room();
    const int refused = virtual_npu::refused_to_wait(handle, "a stream is queried");
    if (refused != kAclSuccess) return refused;
    Stream* stream = virtual_npu::stream_of(handle);
    *status = stream == nullptr || virtual_npu::is_idle(*stream) ? 0 : 1;  // 0: complete
    return virtual_npu_stream_status(handle);
}

EXPORTED int aclrtSynchronizeStream(void* stream) { return virtual_npu::synchronize_stream(stream, -1); }
EXPORTED int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout_ms) {
    return virtual_npu::synchronize_stream(stream, timeout_ms);
}
EXPORTED int aclrtSynchronizeDevice() { return virtual_npu::synchronize_device(-1); }
EXPORTED int aclrtSynchronizeDeviceWithTimeout(int32_t timeout_ms) {
    return virtual_npu::synchronize_device(timeout_ms);
}
EXPORTED int aclrtSetStreamFailureMode(void*, uint64_t) { return kAclSuccess; }

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
