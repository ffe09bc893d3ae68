// What torch_npu's caching allocator says of itself: requested bytes, streams, private pools, segments, and when the
// memory of a freed block can be handed out again. mstx tells none of these.
//
// Its trace tracker is an interface of C++ without a promise for later versions. So it is used with versions whose
// layout is known, after the allocator has been recognised, and its first entries are compared with the regions that
// the allocator tells mstx. Whatever differs ends it: the fact `unobserved.allocator` says why.
#pragma once

#include <cstdint>

namespace msmemscope::allocator_trace {

// Attaches the tracker; once per process, it cannot be detached. To be called when torch_npu has been initialised, and
// before it allocates. version: of torch_npu. Returns why it cannot be used, null if it was attached.
__attribute__((visibility("default"))) const char* attach(const char* version) noexcept;

// The allocator has told mstx of a block. Compares what the tracker said of it right before, as long as that is new.
void block_was_reported(std::uint64_t address, std::uint64_t bytes) noexcept;

}  // namespace msmemscope::allocator_trace
