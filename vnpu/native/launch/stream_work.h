// What was put on a stream and cannot be done at once: because the stream is captured into a graph, because something
// before it waits for an event of another graph or program, or because streams are asynchronous. Everything else is
// done by the caller, in its call, and nothing here is touched.
//
// Work waits in its stream's queue, in order. In the synchronous mode the thread that records the event which the first
// of them waits for does all that can be done then; in the asynchronous mode each stream has a thread that does it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "streams.h"

#define SHARED __attribute__((visibility("default")))

namespace virtual_npu {

class StreamWork {
public:
    virtual ~StreamWork() = default;
    // Whether it can be done now. Called with the lock held.
    virtual bool is_ready() const { return true; }
    // A graph does it again at each replay.
    virtual void run() = 0;
    // Whether it may be in a group of tasks that are replaced later: launches of kernels.
    virtual bool is_kernel() const { return false; }
    // Nothing else is done on a device that has failed.
    virtual bool runs_on_failed_device() const { return false; }
};

using StreamWorkPointer = std::shared_ptr<StreamWork>;

// The stream of a handle; of the null handle the default stream of the calling thread's device, null without one.
SHARED Stream* stream_of(const void* handle);

// A new stream of a device of the driver. Its memory is never given back.
SHARED void prepare_stream(Stream& stream, int32_t number, uint32_t device);

// The stream whose work the calling thread does just now; null: none.
SHARED const Stream* stream_at_work();

inline bool runs_now(const Stream* stream) {
    return stream == nullptr || stream->detours.load(std::memory_order_acquire) == 0 || stream_at_work() == stream;
}

// Does the work as soon as all before it on the stream is done, or records it. Returns a RuntimeError.
SHARED int put_work(Stream& stream, StreamWorkPointer work);

// To be called when an event was recorded or reset, or a device has failed: somebody may wait for it.
SHARED void something_happened();

// Wait until nothing waits any more; false if that has not happened after `timeout_ms` milliseconds (negative: no end).
SHARED bool wait_for_stream(Stream& stream, int64_t timeout_ms);
SHARED bool wait_for_device(uint32_t device, int64_t timeout_ms);
SHARED void wait_for_all_devices();
// The same for a condition that something_happened() may change.
using Condition = bool (*)(const void* context);
SHARED bool wait_for(Condition condition, const void* context, int64_t timeout_ms);
SHARED bool is_idle(Stream& stream);

// Forgets what waits on a stream.
SHARED void discard_work(Stream& stream);

}  // namespace virtual_npu
