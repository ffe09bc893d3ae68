// A block of packed event records. A full tail of a segment becomes one, and takes about a fifth of its bytes.
//
// Records are packed one after the other. Each field becomes its difference from the expected value, in as many bytes
// as the difference needs. FORMAT.md says how. A block stands for itself: nothing before it is needed to read it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::format {

// "MSPB" when read as bytes on a little-endian machine. Stored last: a block without it is not committed.
inline constexpr std::uint32_t kPackedBlockCommit = 0x4250534dU;

struct PackedBlockHeader {
    std::uint32_t commit;
    std::uint32_t record_count;
    std::uint32_t payload_bytes;
    std::uint32_t checksum;  // of the records, see record_checksum.h; 0: there is none
    // Of the segment, in all blocks before this one, whether they are still there or not.
    std::uint64_t records_before;
    // Of the first record.
    std::uint64_t first_sequence;
};
static_assert(sizeof(PackedBlockHeader) == 32);

// Blocks begin at multiples of this many bytes, so that one can be given back to the disk without its neighbours.
inline constexpr std::size_t kPackedBlockAlignment = 4096;
// Of one block: as many as the largest tail holds.
inline constexpr std::size_t kMostPackedRecords = 4096;

}  // namespace msmemscope::format
