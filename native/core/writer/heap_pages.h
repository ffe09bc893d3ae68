// The pages of the heaps of the C library that are not in memory.
#pragma once

#include <cstdint>

namespace msmemscope {

// Bytes of all heaps that are not in memory, in pages: a heap grows before it is touched, and malloc_trim gives pages
// back. Of large heaps it is an estimate. Where heaps are is looked up again after two seconds, which takes about 2 ms.
std::uint64_t absent_from_heaps() noexcept;

}  // namespace msmemscope
