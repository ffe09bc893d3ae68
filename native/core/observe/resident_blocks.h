// How much of the large blocks of the host is in memory: what a program allocates and never touches takes none.
//
// The kernel is asked beside a figure of host memory now and then. It is also asked where the end may be near, and as a
// sampled block is freed. Moments lie twice as far apart each time. Nothing here takes a lock or allocates.
#pragma once

#include <cstdint>

#include "core/writer/append.h"
#include "core/writer/process_state.h"

namespace msmemscope::resident_blocks {

// The `labels` of a sample that has no pages of its own to be asked for.
inline constexpr std::uint32_t kNotAsked = UINT32_MAX;

// The bytes of a sampled block that are in memory, as it is about to be freed.
std::uint64_t of_sample(const LiveBlock& sample) noexcept;

// Writes an event of one of the kinds that say how much of a block is, or was, in memory.
void write(ProcessState& state, format::EventKind kind, const LiveBlock& block, std::uint64_t resident_bytes) noexcept;

// When the kernel is asked.
enum class Asking : std::uint8_t {
    kIfDue,      // samples, now and then
    kNearLimit,  // CPU tensors too, unless it was asked just before: a program may come near to its limit again and
                 // again
    kAtEnd,      // the same in any case
};

// Writes what is not known yet of samples and of CPU tensors that are alive.
void tell(ProcessState& state, Asking asking) noexcept;

}  // namespace msmemscope::resident_blocks
