// What torch_npu's caching allocator says of itself: requested bytes, streams, private pools, segments, and when the
// memory of a freed block can be handed out again. mstx tells none of these.
//
// Its trace tracker is an interface of C++ without a promise for later versions. So it is used with versions whose
// layout is known, after the allocator has been recognised, and its first entries are compared with the regions that
// the allocator tells mstx. Whatever differs ends it: the fact `unobserved.allocator` says why.
//
// Of each block its stream is recorded, and when its memory came back later than its free. All entries are only
// where events of the allocator were asked for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope::allocator_trace {

#pragma GCC visibility push(default)

// Attaches the tracker; once per process, it cannot be detached. To be called when torch_npu has been initialised.
// version: of torch_npu. is_late: it may have allocated by now. Returns why it cannot be used, null if it was attached.
const char* attach(const char* version, bool is_late) noexcept;

// What the allocator of a device does is recorded for as long as all of it is told: not any more from the first entry
// on that nobody collected, until its state is read. A snapshot that is taken of it tells the tracker so, under the
// allocator's lock: what is recorded of it from then on has this number at least, and what came before has not.
struct Moment {
    int device;                  // the program's number
    std::uint64_t sequence;      // 0: the state is not wanted, or known since nothing was missed
    std::uint64_t active_bytes;  // of blocks in use, or freed and waited for
};

// The calling thread is about to take a snapshot of the allocators, to record their state; one thread at a time. False
// if the tracker is not attached, or not trusted any more.
bool begin_state() noexcept;
// It has been taken. Returns of how many devices, in their order; they stand there until the next one begins.
std::size_t end_state(const Moment*& found) noexcept;

// A segment or a block of a state.
struct Held {
    format::EventKind kind;  // SEGMENT_ALLOC, SEGMENT_MAP, ALLOCATOR_ALLOC; ALLOCATOR_FREE: freed and waited for
    int device;              // of the driver
    std::uint64_t address;
    std::uint64_t size;
    std::uint64_t stream;
    std::uint64_t pool[2];
    std::int64_t requested_bytes;  // -1: not known
    bool is_small;                 // of a segment: for small blocks
};
// False if it was dropped.
bool record_held(const Held& held) noexcept;

// The state could not be recorded, so that what follows means nothing.
void lose_state(const char* why) noexcept;

#pragma GCC visibility pop

// What is known of the block that this thread tells mstx of, as the number of a set of attributes: its stream, where
// that is not the first one that the device had blocks of. To be called once for each block.
std::uint32_t attributes_of_block(std::uint64_t address) noexcept;

// The allocator has told mstx of the end of a block. If its memory is handed out again later, as other streams use it,
// that is recorded then as the completion of the free.
void block_was_given_back() noexcept;

// The allocator has told mstx of a block. Compares what the tracker said of it right before, as long as that is new.
void block_was_reported(std::uint64_t address, std::uint64_t bytes) noexcept;

}  // namespace msmemscope::allocator_trace
