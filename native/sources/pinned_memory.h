// The bytes that were asked for of pinned memory of the host. The allocator of torch rounds requests up to powers of
// two before it asks the driver, and keeps the memory it got. Only the tensor that the memory was first for tells the
// bytes asked for.
#pragma once

#include <cstdint>

namespace msmemscope::pinned_memory {

#pragma GCC visibility push(default)

// Where the pinned memory begins that this thread got from the driver since the last call; 0 if it got none.
std::uint64_t take_new() noexcept;

// So many bytes of it were asked for.
void note_requested(std::uint64_t address, std::uint64_t bytes) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::pinned_memory
