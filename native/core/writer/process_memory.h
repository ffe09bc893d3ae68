// What the kernel says of the memory of this process.
#pragma once

#include <cstdint>

namespace msmemscope {

// Bytes of physical memory. Zeros where the kernel does not say.
struct ProcessMemory {
    std::uint64_t resident;
    // Of these, what belongs to no file and to no memory that is shared: heaps, stacks, private mappings.
    std::uint64_t anonymous;
};

ProcessMemory process_memory() noexcept;

// Bytes that the C library's allocator keeps though the program has freed them, at least 1; 0 where that is not known.
//
// The C library walks through every free block for it, each arena locked meanwhile: usually 2 us, and 10 ms where
// 100,000 blocks are free. It is not asked where the time for it is used up: 1/200 of the time since it was first asked,
// and 20 ms at the beginning.
std::uint64_t kept_by_the_heap() noexcept;
// Until then it is not known. Takes the loader's lock, and cannot be called before the C library is set up.
__attribute__((visibility("default"))) void find_heap() noexcept;

}  // namespace msmemscope
