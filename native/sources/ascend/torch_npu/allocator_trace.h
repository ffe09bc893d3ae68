// The entries of torch_npu's caching allocator about itself. mstx tells none of these:
// - requested bytes;
// - streams;
// - private pools;
// - segments;
// - when the memory of a freed block can be handed out again.
//
// Its trace tracker is an interface of C++ without a promise for later versions. So it is used only with versions whose
// layout is known, after the allocator has been recognised. Its first entries are compared with the regions that the
// allocator tells mstx. Any difference ends it, and the fact `unobserved.allocator` says why.
//
// For each block we record its stream, and when its memory came back later than its free. All entries are recorded only
// if events of the allocator were asked for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope::allocator_trace {

#pragma GCC visibility push(default)

// Attaches the tracker; once per process, it cannot be detached. To be called when torch_npu has been initialised.
// version: of torch_npu. is_late: it may have allocated by now. Returns why it cannot be used, null if it was attached.
const char* attach(const char* version, bool is_late) noexcept;

// Entries of a device's allocator are recorded as long as none is missed. From the first entry on that nobody
// collected, they are left out until the allocator's state is read. A snapshot for that purpose calls the tracker under
// the allocator's lock. Entries that are recorded later have at least this sequence number, and earlier ones have a
// smaller one.
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

// Takes blocks from the tracker, where mstx tells nothing since the allocator was set up before us. Their bytes are
// those that were asked for. False if the tracker is not attached or not trusted.
bool take_blocks() noexcept;
// As begin_state, where nothing is recorded: the snapshot is compared with what the tracker says of it. Meanwhile the
// reserved bytes are counted from 0 on: those of the snapshot are to be added.
bool begin_comparison() noexcept;
// The snapshot has the bytes that the tracker told. reserved_bytes: by the snapshot. device: of the driver.
void note_reserved(int device, std::int64_t reserved_bytes) noexcept;

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

// Facts about the block that this thread tells mstx of, as the number of a set of attributes. The set has the block's
// stream, unless the device had its first blocks on that stream. To be called once for each block.
std::uint32_t attributes_of_block(std::uint64_t address) noexcept;

// The allocator has told mstx of the end of a block. If its memory is handed out again later, as other streams use it,
// that is recorded then as the completion of the free.
void block_was_given_back() noexcept;

// The allocator has told mstx of a block. Compares it with the tracker's entry right before, until enough were right.
void block_was_reported(std::uint64_t address, std::uint64_t bytes) noexcept;

}  // namespace msmemscope::allocator_trace
