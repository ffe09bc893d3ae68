// Checksums of the contents of memory.
//
// The checksum "hash64", byte by byte (tests/support/watch_checksum.py does the same in Python):
//
// Content is cut into segments of 1024 bytes. The last one may be shorter. Each segment is hashed by itself with the
// seed 0, so that a change can be placed. The segments' hashes are a list of little-endian 64-bit words. The checksum
// is the hash of that list, with the length of the content as seed. A list of more than 1024 bytes is hashed 1024 bytes
// at a time, each with the hash before it as seed.
//
// This is the hash of up to 1024 bytes, with a seed:
// - The bytes are filled up with zeros to whole stripes of 64. Each stripe is eight little-endian words w[0..7].
// - Accumulators a[0..7] begin as kStart.
// - For stripe s and lane i, with v = w[i] ^ key[s * 8 + i]:
//     a[i ^ 1] += w[i];  a[i] += (v mod 2^32) * (v div 2^32)  (modulo 2^64)
// - Here key[n] is the n-th output of splitmix64 begun with 0x6d736d656d736370.
// - At the end h = seed ^ (bytes * kStart[0]). Then for pairs j = 0..3, with addition before exclusive or:
//     h = mix(h + a[2j] ^ kStart[j], a[2j + 1] ^ kStart[j + 4])
// - The hash is mix(h, bytes + kStart[7]).
// - Here mix(x, y) is the upper half of the 128-bit product, exclusive-or'ed with the lower.
//
// XXH3 (Yann Collet) made this accumulation known: one widening multiplication per 8 bytes. Lanes do not depend on each
// other, so it runs as wide as the vector unit is.
//
// The checksum "crc64" is that of older tools. It is a table CRC of 64 bits, least significant bit first, all ones
// before and after. Its table is built by shifting right, with the constant 0x42f0e1eba9ea3693 that is meant for
// shifting left. So it is no catalogued CRC. "123456789" gives b86883e6fa710a9f.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::watch {

inline constexpr std::size_t kSegmentBytes = 1024;

#pragma GCC visibility push(default)

// Hash of at most kSegmentBytes.
std::uint64_t hash_segment(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;
// The same without vector instructions; for tests.
std::uint64_t hash_segment_plainly(const void* bytes, std::size_t count, std::uint64_t seed) noexcept;

// Hashes whole content: writes the hash of each segment. Faster than segment by segment.
void hash_segments(const void* bytes, std::size_t count, std::uint64_t* hashes) noexcept;
// The same for whole segments with vectors of one width: 0 none, 1 AVX2, 2 AVX-512. False if the processor does not
// have them; for tests.
bool hash_whole_segments_at(unsigned width, const void* bytes, std::size_t segments, std::uint64_t* hashes) noexcept;

// Checksum of content of so many bytes from the hashes of its segments.
std::uint64_t combine_segments(const std::uint64_t* hashes, std::size_t count, std::uint64_t content_bytes) noexcept;

// Continues a crc64 over more bytes; begin with 0.
std::uint64_t continue_crc64(std::uint64_t crc, const void* bytes, std::size_t count) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::watch
