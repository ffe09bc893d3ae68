// Anonymous memory that a forked child sees as zeros.
//
// The child of a fork must not go on writing the parent's log. Memory marked MADV_WIPEONFORK (Linux 4.14) is zero in
// the child. That holds for every kind of fork, also for a bare clone system call. So state in such memory resets
// itself.
#pragma once

#include <cstddef>

namespace msmemscope {

// Zeroed, page-aligned memory; pages take space when first touched. Null if refused.
void* map_wiped_memory(std::size_t bytes) noexcept;

void unmap_memory(void* memory, std::size_t bytes) noexcept;

}  // namespace msmemscope
