// The hot path: one record behind the other into the calling thread's segment. Inlined where events are made, so that
// they are never put together in memory first.
#pragma once

#include <algorithm>

#include "core/writer/process_state.h"
#include "core/writer/texts.h"

namespace msmemscope {

inline std::uint64_t clock_ns() noexcept { return thread_handle.clock.now_ns(); }

// How long a thread uses the numbers that it has leased. An event can have a smaller number than an earlier event of
// another thread, if that one is not older than this.
inline constexpr std::uint64_t kLeaseNs = 4096;
inline constexpr std::uint64_t kMostLeased = 64;

// Numbers that are larger than those of all events of all threads so far. They end the thread's lease, so that its
// numbers rise.
inline std::uint64_t take_numbers(ProcessState& state, std::uint64_t count) noexcept {
    NumberLease& lease = thread_handle.lease;
    const std::uint64_t first = state.sequence.fetch_add(count, std::memory_order_relaxed);
    lease.next = first + count;
    lease.end = lease.next;
    lease.size = 0;
    return first;
}

// If no other thread takes numbers, the thread leases one number, so that there are no gaps. Otherwise it leases as
// many as it is going to need while the lease lasts. That is twice as many if it used up the last ones in time. If some
// of them were left, it is as many as it used. If the last lease is long ago, it is one.
inline void renew_lease(ProcessState& state, NumberLease& lease, std::uint64_t now) noexcept {
    const std::uint64_t age = now - lease.begun_ns;
    const std::uint64_t before = lease.end;
    std::uint64_t size = 1;
    if (lease.is_contended && lease.next >= before) {
        size = age < kLeaseNs ? 2 * lease.size : size;
    } else if (lease.is_contended && age < 2 * kLeaseNs) {
        size = lease.size - (before - lease.next);
    }
    lease.size = std::clamp<std::uint64_t>(size, 1, kMostLeased);
    lease.next = state.sequence.fetch_add(lease.size, std::memory_order_relaxed);
    lease.end = lease.next + lease.size;
    lease.begun_ns = now;
    lease.is_contended = before != 0 && lease.next != before;
}

// A number of the thread's own lease. With many fast threads, all of them would wait for the counter that they share.
// The number is larger than the thread's last one. It is also larger than after(). If a record must come behind an
// event of another thread, after() has to name that event.
template <typename After>
__attribute__((always_inline)) inline std::uint64_t take_leased_number(ProcessState& state, std::uint64_t now,
                                                                       After after) noexcept {
    NumberLease& lease = thread_handle.lease;
    if (lease.next >= lease.end || now - lease.begun_ns >= kLeaseNs || lease.next <= after()) {
        renew_lease(state, lease, now);
    }
    return lease.next++;
}

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

// Returns the sequence number, or 0 if the event was dropped (and counted). numbers: how many the record takes. It has
// the first of them.
__attribute__((always_inline)) inline std::uint64_t append_here(ProcessState& state, const Event& event,
                                                                std::uint64_t numbers = 1) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || state.failed.load(std::memory_order_relaxed) ||
        (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return 0;
    }
    const std::uint64_t sequence = take_numbers(state, numbers);
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
    return sequence;
}

// A record whose sequence number was taken before. False if the event was dropped (and counted).
inline bool write_numbered(ProcessState& state, const Event& event, std::uint64_t sequence) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return false;
    }
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
    return true;
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
