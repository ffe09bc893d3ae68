// How much of the large blocks of the host is in memory: what a program allocates and never touches takes none.
//
// The kernel is asked beside a figure of host memory now and then, where the end may be near, and as a sampled block is
// freed. Moments lie twice as far apart each time. Nothing here takes a lock or allocates.
#pragma once

#include <cstdint>

#include "core/writer/append.h"
#include "core/writer/process_state.h"

namespace msmemscope::resident_blocks {

// The `labels` of a sample that has no pages of its own to be asked for.
inline constexpr std::uint32_t kNotAsked = UINT32_MAX;

// The bytes of a sampled block that are in memory, as it is about to be freed.
std::uint64_t of_sample(const LiveBlock& sample) noexcept;

// Writes what is not known yet of samples that are alive, if it is time. is_last: the end is near, or here. Then it is
// time, and CPU tensors are asked for, too.
void tell(ProcessState& state, bool is_last) noexcept;

}  // namespace msmemscope::resident_blocks
