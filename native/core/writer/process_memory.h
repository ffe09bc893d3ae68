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

}  // namespace msmemscope
