// The pages of the heaps of the C library that are not in memory.
#pragma once

#include <cstdint>

namespace msmemscope {

// Bytes of all heaps that are not in memory, in pages: a heap grows before it is touched, and malloc_trim gives pages
// back. Of large heaps it is an estimate. It takes about a millisecond, and one in a hundred of the time. Until then
// the last result holds, unless it is to be made anew. Where heaps are is looked up again after two seconds.
std::uint64_t absent_from_heaps(bool anew) noexcept;

}  // namespace msmemscope
