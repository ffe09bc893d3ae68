// The hot path: one record behind the other into the calling thread's segment. Inlined where events are made, so that
// they are never put together in memory first.
#pragma once

#include "core/writer/process_state.h"
#include "core/writer/texts.h"

namespace msmemscope {

inline std::uint64_t clock_ns() noexcept { return thread_handle.clock.now_ns(); }

__attribute__((always_inline)) inline void write_record(format::Record& record, const Event& event,
                                                        std::uint64_t sequence) noexcept {
    record.timestamp_ns = event.timestamp_ns != 0 ? event.timestamp_ns : clock_ns();
    record.address = event.address;
    record.size = event.size;
    const auto device = static_cast<std::uint16_t>(event.device);
    record.thread_and_device = thread_handle.thread_id | static_cast<std::uint32_t>(device >> 8U) << 24U;
    record.device_low = static_cast<std::uint8_t>(device);
    record.kind = event.kind;
    record.pool = event.pool;
    record.flags = event.flags;
    record.name_id = event.name_id;
    record.attribute_id = event.attribute_id;
    record.python_stack_id = event.python_stack_id;
    record.native_stack_id = event.native_stack_id;
    record.extra = event.extra;
    // The commit marker: whoever sees it sees the rest.
    __atomic_store_n(&record.sequence, sequence, __ATOMIC_RELEASE);
}

// Returns the sequence number, 0 if the event was dropped (and counted).
// numbers: that the record takes, of which it has the first.
__attribute__((always_inline)) inline std::uint64_t append_here(ProcessState& state, const Event& event,
                                                                std::uint64_t numbers = 1) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || state.failed.load(std::memory_order_relaxed) ||
        (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return 0;
    }
    const std::uint64_t sequence = state.sequence.fetch_add(numbers, std::memory_order_relaxed);
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
    return sequence;
}

// A record whose sequence number was taken before.
inline void write_numbered(ProcessState& state, const Event& event, std::uint64_t sequence) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return;
    }
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
}

// The MALLOC of a block that was alive when collection began; its sequence number has been claimed.
inline void write_existing(const RecordingScope& scope, ProcessState& state, const LiveBlock& block) noexcept {
    Event event{format::EventKind::kMalloc};
    event.pool = block.pool;
    event.device = block.device;
    event.flags = format::kFlagShadow;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.attribute_id = texts::id_in_log(scope, block.attributes);
    event.extra = texts::id_in_log(scope, block.labels);
    write_numbered(state, event, block.sequence);
}

}  // namespace msmemscope
