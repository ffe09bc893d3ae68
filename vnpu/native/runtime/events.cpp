// Events. One is complete when the stream has come to it, which in the synchronous mode is at once. A wait is for the
// last record before it; a later one does not count.
//
// An external event (of graphs) is different: it is set where it is recorded, and whoever waits for it waits until
// then, also if nobody has recorded it yet, until it is reset. An event that is recorded on a captured stream says in
// the capture what has to come before, and nothing outside of it.
//
// Recording does not fail on a device that has failed, because the framework does that in destructors, which cannot
// throw; waiting does.
#include <time.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "devices.h"
#include "graph.h"
#include "handles.h"
#include "kernel_launch.h"
#include "on_stream.h"
#include "runtime_errors.h"
#include "stream_work.h"
#include "streams.h"

namespace virtual_npu {
namespace {

constexpr uint64_t kEventMark = 0x6576656e74212121;
constexpr uint32_t kExternalEvent = 0x20;

uint64_t now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// What of an event streams still look at when it may be destroyed.
struct EventState {
    std::atomic<uint64_t> recorded_ns{0};  // 0: not recorded
    std::atomic<uint64_t> put{0};          // records that were put on streams
    std::atomic<uint64_t> done{0};         // the last of them that a stream has come to
    std::atomic<bool> is_set{false};       // of an external event

    void complete(uint64_t number) {
        recorded_ns = now_ns();
        is_set = true;
        uint64_t before = done;
        while (before < number && !done.compare_exchange_weak(before, number)) {
        }
        something_happened();
    }
    void reset() {
        recorded_ns = 0;
        is_set = false;
    }
};

struct Event {
    std::atomic<uint64_t> mark;
    uint32_t flags;
    std::atomic<int32_t> device;  // the driver's number of the device that recorded it last, -1: none
    std::shared_ptr<EventState> state;
    std::atomic<bool> is_captured;  // its last record was in a capture
    std::mutex guard;
    CapturedRecord captured;

    CapturedRecord captured_record() {
        const std::lock_guard<std::mutex> lock(guard);
        return captured;
    }
};

class RecordWork final : public StreamWork {
public:
    RecordWork(std::shared_ptr<EventState> state, uint64_t number) : state_(std::move(state)), number_(number) {}
    void run() override { state_->complete(number_); }
    bool runs_on_failed_device() const override { return true; }

private:
    const std::shared_ptr<EventState> state_;
    const uint64_t number_;
};

class WaitWork final : public StreamWork {
public:
    WaitWork(std::shared_ptr<EventState> state, uint64_t number, bool is_external)
        : state_(std::move(state)), number_(number), is_external_(is_external) {}
    bool is_ready() const override { return is_external_ ? state_->is_set.load() : state_->done >= number_; }
    void run() override {}

private:
    const std::shared_ptr<EventState> state_;
    const uint64_t number_;
    const bool is_external_;
};

// What a number in the memory of the device is compared with.
enum ValueComparison : uint32_t { kAtLeast = 0, kEqual = 1, kAnyBit = 2, kNotAllBits = 3 };

class ValueWait final : public StreamWork {
public:
    ValueWait(const void* place, uint64_t value, uint32_t comparison)
        : place_(static_cast<const volatile uint64_t*>(place)), value_(value), comparison_(comparison) {}
    bool is_ready() const override {
        const uint64_t found = *place_;
        switch (comparison_) {
            case kAtLeast:
                return static_cast<int64_t>(found - value_) >= 0;
            case kEqual:
                return found == value_;
            case kAnyBit:
                return (found & value_) != 0;
            default:
                return ~(found | value_) != 0;
        }
    }
    void run() override {}

private:
    const volatile uint64_t* const place_;
    const uint64_t value_;
    const uint32_t comparison_;
};

int no_event(const void* handle) {
    return fail(kAclInvalidParameter, "EE1001: %p is not an event, or it is destroyed", handle);
}

Event* event_of(void* handle) {
    auto* event = static_cast<Event*>(handle);
    return event != nullptr && event->mark == kEventMark ? event : nullptr;
}

// An event that was never recorded counts as one of the calling thread's device: the framework's task queue drops the
// record if it has failed.
int device_status_of(const Event& event) {
    const int32_t device = event.device;
    return device >= 0 ? device_status(device) : virtual_npu_stream_status(nullptr);
}

// Nobody outside of a capture can wait for what happens at replays.
int refused_to_wait(Event& event, const char* what) {
    const bool is_refused = event.is_captured && Graph::is_captured_now(event.captured_record());
    return stream_result(is_refused ? static_cast<int>(kEventCaptured) : static_cast<int>(kAclSuccess), what);
}

int create_event(void** event, uint32_t flags) {
    if (event == nullptr) return no_room();
    auto* made = Handles<Event, kEventMark>::make();
    made->flags = flags;
    made->device = -1;
    made->is_captured = false;
    made->state = std::make_shared<EventState>();
    made->mark = kEventMark;
    *event = made;
    return kAclSuccess;
}

int record_event(Event& event, void* handle) {
    event.device = virtual_npu_device_of_stream(handle);
    Stream* stream = stream_of(handle);
    if ((event.flags & kExternalEvent) == 0) {
        CapturedRecord record;
        const bool is_captured =
            stream != nullptr && (stream->detours & kIsCaptured) != 0 && Graph::record(stream, &record);
        if (is_captured || event.is_captured) {
            const std::lock_guard<std::mutex> lock(event.guard);
            event.captured = record;
            event.is_captured = is_captured;
        }
        if (is_captured) return kAclSuccess;
    }
    const uint64_t number = ++event.state->put;
    if (runs_now(stream)) {
        event.state->complete(number);
        return kAclSuccess;
    }
    return stream_result(put_work(*stream, std::make_shared<RecordWork>(event.state, number)), "an event is recorded");
}

int wait_for_event(Stream& stream, Event& event) {
    const char* const what = "a stream waits for an event";
    const bool is_external = (event.flags & kExternalEvent) != 0;
    if (!is_external && (event.is_captured || (stream.detours & kIsCaptured) != 0)) {
        if (!event.is_captured && event.state->put == 0) return kAclSuccess;  // never recorded
        bool is_done = false;
        const int status = Graph::wait(&stream, event.captured_record(), &is_done);
        if (status != kAclSuccess || is_done || event.is_captured) return stream_result(status, what);
    }
    const uint64_t number = event.state->put;
    const bool has_happened = is_external ? event.state->is_set.load() : event.state->done >= number;
    if (has_happened && runs_now(&stream)) return kAclSuccess;
    return stream_result(put_work(stream, std::make_shared<WaitWork>(event.state, number, is_external)), what);
}

bool is_complete(const void* event) {
    const auto& state = *static_cast<const EventState*>(event);
    return state.done >= state.put;
}

int query(void* handle, int32_t* status, int32_t complete) {
    if (status == nullptr) return no_room();
    Event* event = event_of(handle);
    if (event == nullptr) return no_event(handle);
    const int refused = refused_to_wait(*event, "an event is queried");
    if (refused != kAclSuccess) return refused;
    *status = is_complete(event->state.get()) ? complete : 1 - complete;
    return device_status_of(*event);
}

}  // namespace
}  // namespace virtual_npu

using virtual_npu::Event;
using virtual_npu::fail;
using virtual_npu::kAclInvalidParameter;
using virtual_npu::kAclSuccess;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtCreateEvent(void** event) { return virtual_npu::create_event(event, 0); }
EXPORTED int aclrtCreateEventWithFlag(void** event, uint32_t flags) { return virtual_npu::create_event(event, flags); }
EXPORTED int aclrtCreateEventExWithFlag(void** event, uint32_t flags) {
    return virtual_npu::create_event(event, flags);
}

EXPORTED int aclrtDestroyEvent(void* event) {
    return virtual_npu::Handles<Event, virtual_npu::kEventMark>::release(event) ? kAclSuccess
                                                                                : virtual_npu::no_event(event);
}

EXPORTED int aclrtRecordEvent(void* handle, void* stream) {
    Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return virtual_npu::record_event(*event, stream);
}

EXPORTED int aclrtStreamWaitEvent(void* handle, void* event_handle) {
    Event* event = virtual_npu::event_of(event_handle);
    if (event == nullptr) return virtual_npu::no_event(event_handle);
    const int status = virtual_npu_stream_status(handle);
    virtual_npu::Stream* stream = virtual_npu::is_stream(handle) ? virtual_npu::stream_of(handle) : nullptr;
    return status != kAclSuccess || stream == nullptr ? status : virtual_npu::wait_for_event(*stream, *event);
}

EXPORTED int aclrtResetEvent(void* handle, void* stream) {
    Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return virtual_npu::on_stream(stream, [state = event->state] {
        state->reset();
        return static_cast<int>(kAclSuccess);
    });
}

// With these torch_npu makes its external events, where the runtime has them: an event is a number on the device.
EXPORTED int aclrtValueWrite(void* place, uint64_t value, uint32_t, void* stream) {
    const int status = virtual_npu_stream_status(stream);
    if (place == nullptr) return virtual_npu::no_room();
    if (status != kAclSuccess) return status;
    return virtual_npu::on_stream(stream, [place, value] {
        *static_cast<volatile uint64_t*>(place) = value;
        virtual_npu::something_happened();
        return static_cast<int>(kAclSuccess);
    });
}

EXPORTED int aclrtValueWait(void* place, uint64_t value, uint32_t comparison, void* handle) {
    const int status = virtual_npu_stream_status(handle);
    if (place == nullptr || comparison > virtual_npu::kNotAllBits) return virtual_npu::no_room();
    virtual_npu::Stream* stream = status == kAclSuccess ? virtual_npu::stream_of(handle) : nullptr;
    if (stream == nullptr) return status;
    return virtual_npu::stream_result(
        virtual_npu::put_work(*stream, std::make_shared<virtual_npu::ValueWait>(place, value, comparison)),
        "a stream waits for a value");
}

EXPORTED int aclrtQueryEventStatus(void* event, int32_t* status) { return virtual_npu::query(event, status, 1); }
EXPORTED int aclrtQueryEventWaitStatus(void* event, int32_t* status) { return virtual_npu::query(event, status, 0); }

EXPORTED int aclrtSynchronizeEvent(void* handle) {
    Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    const int refused = virtual_npu::refused_to_wait(*event, "an event is waited for");
    if (refused != kAclSuccess) return refused;
    virtual_npu::wait_for(virtual_npu::is_complete, event->state.get(), -1);
    return virtual_npu::device_status_of(*event);
}

// The time of the host between the two records: there is no other clock here.
EXPORTED int aclrtEventElapsedTime(float* milliseconds, void* start, void* end) {
    if (milliseconds == nullptr) return virtual_npu::no_room();
    for (void* handle : {start, end}) {
        if (virtual_npu::event_of(handle) == nullptr) return virtual_npu::no_event(handle);
    }
    const uint64_t begin_ns = static_cast<Event*>(start)->state->recorded_ns;
    const uint64_t end_ns = static_cast<Event*>(end)->state->recorded_ns;
    if (begin_ns == 0 || end_ns == 0) return fail(kAclInvalidParameter, "EE1001: an event was not recorded");
    *milliseconds = static_cast<float>(static_cast<double>(static_cast<int64_t>(end_ns - begin_ns)) * 1e-6);
    return kAclSuccess;
}

EXPORTED int aclrtEventGetTimestamp(void* handle, uint64_t* microseconds) {
    const Event* event = virtual_npu::event_of(handle);
    if (event == nullptr) return virtual_npu::no_event(handle);
    if (microseconds == nullptr) return virtual_npu::no_room();
    *microseconds = event->state->recorded_ns / 1000;
    return kAclSuccess;
}
