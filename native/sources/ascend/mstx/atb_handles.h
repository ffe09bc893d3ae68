// The handles that ATB is given: one for each of its live heaps, and one for each region. They lie in tables of fixed
// size without locks. ATB registers a heap and a few regions when an operation begins, and takes them back when it
// ends.
#pragma once

#include <cstdint>

namespace msmemscope::mstx {

struct Heap {
    void* address;
    std::uint64_t size;
    int device;
};

// replaced: the heap that was registered at the same address before and never taken back, if there is one. False if
// there is no room.
bool remember_heap(const Heap& heap, Heap& replaced) noexcept;
// False if no such heap is known.
bool forget_heap(const void* address, Heap& heap) noexcept;
bool has_heap(int device) noexcept;

// A handle unlike any other that is in use; never null. address: of the region, null for one that is not followed.
// Where the table is full, the handle is the address.
void* new_handle(void* address) noexcept;
// The region's address, once; null for handles that are not in use, or whose region is not followed.
void* take_handle(void* handle) noexcept;
// Handles of regions at this address mean nothing from here on.
void retire_handles_of(const void* address) noexcept;

}  // namespace msmemscope::mstx
