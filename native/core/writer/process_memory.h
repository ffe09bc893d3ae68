// The kernel's figures about the memory of this process.
#pragma once

#include <cstdint>

#include "core/writer/heap_pages.h"

namespace msmemscope {

// Bytes of physical memory. Zeros where the kernel does not say.
struct ProcessMemory {
    std::uint64_t resident;
    // The part of these that belongs to no file and to no shared memory: heaps, stacks, private mappings.
    std::uint64_t anonymous;
};

__attribute__((visibility("default"))) ProcessMemory process_memory() noexcept;

// The part of the resident memory that is shared without a file on a disk. These are mappings that processes share, and
// files in memory such as those of /dev/shm. 0 where the kernel does not say. Takes about 20 us.
std::uint64_t shared_memory() noexcept;

// Bytes of physical memory. Zeros where the kernel does not say.
struct OwnMemory {
    std::uint64_t private_bytes;       // that no other process shares
    std::uint64_t proportional_bytes;  // of n processes that share a page each has an nth of it
};

// Takes the kernel about 10 ms per gigabyte.
OwnMemory own_memory() noexcept;

// Whether an address lies in private memory of this process that has no file. Reads the list of mappings: about 1 ms.
bool is_anonymous(std::uint64_t address) noexcept;

// Bytes that the C library's allocator keeps though the program has freed them, at least 1; 0 if that is not known.
//
// For this the C library walks through every free block, and locks each arena meanwhile. It takes usually 2 us, and 10
// ms if 100,000 blocks are free. We do not ask if the time for it is used up: 20 ms, plus 1/200 of the time since we
// first asked. The last figure is asked for in any case. Pages of the heaps that are not in memory do not count:
// malloc_trim gave them back. pages: null leaves that out, which takes up to a millisecond.
std::uint64_t kept_by_the_heap(HeapPages* pages, bool is_last) noexcept;
// Until then it is not known. Takes the loader's lock, and cannot be called before the C library is set up.
__attribute__((visibility("default"))) void find_heap() noexcept;

}  // namespace msmemscope
