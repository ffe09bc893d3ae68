// How many pages of a part of the address space are in memory: the kernel is asked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

inline constexpr std::size_t kPagesInPiece = 256;
inline constexpr std::size_t kAllPieces = SIZE_MAX;

// The bytes of [address, address + bytes) that are in memory: as large a share of them as of their pages. The kernel is
// asked for at most `most_pieces` pieces of kPagesInPiece pages. They lie evenly in a larger part, and the result is an
// estimate.
// A part counts as in memory if it is mapped no more, or the kernel refuses to answer. Nothing lies at 0.
std::uint64_t resident_bytes(std::uint64_t address, std::uint64_t bytes, std::size_t most_pieces) noexcept;

}  // namespace msmemscope
