// The events of a recording through a model of the allocator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offline/replay/allocator_model.h"

namespace msmemscope::replay {

enum class Action : std::uint8_t {
    kAllocate = 0,
    kRequestFree = 1,
    kCompleteFree = 2,
    kEmptyCache = 3,
    kFailedAllocation = 4,  // that the recording saw fail: tried where the driver has a limit
    kGiveUpPool = 5,        // the last user of a private pool is gone
    kRestore = 6,           // what came before is not known: here is what there was then; `blocks` is its number
};

// One row per event.
struct Events {
    std::size_t count = 0;
    const std::uint8_t* actions = nullptr;
    const std::uint32_t* blocks = nullptr;   // dense numbers from 0
    const std::uint64_t* bytes = nullptr;    // requested
    const std::uint32_t* streams = nullptr;  // dense numbers from 0
    const std::uint32_t* pools = nullptr;    // 0: the common one
    std::uint32_t block_count = 0;
    std::uint32_t stream_count = 0;
    std::uint32_t private_pools = 0;
};

// The memory that the allocator held at each kRestore. Without it, kRestore events do nothing. Then the events that
// lead from one state to the next are replayed like others. Blocks that were there are allocated, and others are freed.
struct States {
    std::vector<std::uint8_t> leads_to_one;    // per event: passed over, as the state before it has what it did
    std::vector<std::vector<HeldPart>> parts;  // by number of the state
};

// The recorded facts about segments; all null if the recording is not followed.
struct RecordedColumns {
    const std::uint32_t* released = nullptr;       // per event: segments that were given back right before
    const std::uint32_t* first_address = nullptr;  // per event, and one behind: rows of `addresses`
    const std::uint64_t* addresses = nullptr;
};

enum class Inferred : std::uint8_t {
    kNothing = 0,
    kEmptiedBefore = 1,
    kReleasedWithin = 2,
    kFoundMemory = 3,  // the recording saw this allocation fail, the replay does not
};

// The state after each event; empty if only the summary was asked for.
struct Course {
    std::vector<std::uint64_t> addresses;  // of the block that was allocated, 0 for other events
    std::vector<std::uint32_t> segments;   // its number, in the order of their beginnings
    std::vector<std::uint64_t> block_bytes;
    std::vector<std::uint64_t> allocated_bytes;
    std::vector<std::uint64_t> reserved_bytes;
    std::vector<std::uint32_t> segment_counts;
    std::vector<std::uint8_t> inferred;
};

struct Failure {
    bool is_there = false;
    std::size_t event = 0;
    FailureReason reason = FailureReason::kNone;
    std::uint64_t requested_bytes = 0;
    std::uint64_t block_bytes = 0;
    std::uint64_t segment_bytes = 0;
    std::uint64_t allocated_bytes = 0;
    std::uint64_t reserved_bytes = 0;
    std::uint64_t free_bytes = 0;          // in segments that could not be given back
    std::uint64_t largest_free_bytes = 0;  // of the pool and the stream
    bool fits_after_release = false;       // a block of the pool has the room, and is not looked for again
};

struct Summary {
    std::uint64_t peak_allocated_bytes = 0;
    std::size_t peak_allocated_event = 0;
    std::uint64_t peak_reserved_bytes = 0;
    std::size_t peak_reserved_event = 0;
    std::uint64_t allocated_at_peak_bytes = 0;  // in use when the reserve was largest
    std::uint64_t end_allocated_bytes = 0;
    std::uint64_t end_reserved_bytes = 0;
    std::uint64_t most_segments = 0;
    std::uint64_t retries = 0;
    std::size_t replayed_events = 0;  // fewer than there are if an allocation fails that the recording saw succeed
    Failure failure;
};

// Null states: none are known or wanted. Ends at the first allocation that fails, unless the program went on when it
// failed in the recording. Frees of blocks that are not there are passed over.
Summary replay(const AllocatorSettings& settings, const Events& events, const RecordedColumns& recorded,
               const States* states, Course* course);

}  // namespace msmemscope::replay
