// What was asked for of pinned memory of the host. torch's allocator rounds requests up to powers of two before it asks
// the driver, and keeps what it got: only the tensor that the memory was first for tells how much that was.
#pragma once

#include <cstdint>

namespace msmemscope::hal {

#pragma GCC visibility push(default)

// Where the pinned memory begins that this thread got from the driver since the last call; 0 if it got none.
std::uint64_t take_new_pinned() noexcept;

// So many bytes of it were asked for.
void note_requested(std::uint64_t address, std::uint64_t bytes) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::hal
