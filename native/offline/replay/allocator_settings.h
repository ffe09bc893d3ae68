// The settings that shape the memory of a caching allocator of torch, and the sizes that follow from them.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace msmemscope::replay {

constexpr std::uint64_t kKiB = 1ULL << 10;
constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kGiB = 1ULL << 30;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
// More than any device has. Recordings may say anything; larger requests fail, so that sums of sizes do not overflow.
constexpr std::uint64_t kMostRequestBytes = 1ULL << 46;
constexpr std::uint64_t kBlockUnit = 512;
constexpr std::uint64_t kMostSmallBytes = kMiB;
constexpr std::uint64_t kSmallSegmentBytes = 2 * kMiB;
constexpr std::uint64_t kLargeSegmentBytes = 20 * kMiB;
constexpr std::uint64_t kOwnSegmentBytes = 10 * kMiB;  // requests from here on get a segment of their own size

// Where the driver puts new segments: ties between equally large free blocks are broken by address.
enum class AddressOrder : std::uint8_t {
    kHighestGap,  // the highest gap that is large enough, as mmap does on Linux
    kLowestGap,
    kRising,  // never an address again
};

struct AllocatorSettings {
    std::uint64_t padding_bytes = 0;
    std::uint64_t large_segment_bytes = kLargeSegmentBytes;
    std::uint64_t large_chunk_bytes = kLargeSegmentBytes;  // of expandable segments
    std::uint64_t page_bytes = 2 * kMiB;                   // what large segments are a multiple of
    std::uint64_t most_split_bytes = kNoLimit;             // max_split_size
    std::uint64_t most_unsplit_rest_bytes = 20 * kMiB;     // max_non_split_rounding
    std::uint64_t front_alignment_bytes = 0;               // base_addr_aligned_kb; 0: off
    std::array<std::uint64_t, 16> power2_divisions{};      // by power of two, from 1 MiB to 64 GiB
    double collection_threshold = 0.0;                     // garbage_collection_threshold
    std::uint64_t allowed_bytes = kNoLimit;                // per-process fraction of the device's memory
    std::uint64_t device_bytes = 64 * kGiB;
    std::uint64_t driver_bytes = kNoLimit;  // what the driver has for this allocator
    bool is_expandable = false;
    AddressOrder address_order = AddressOrder::kHighestGap;

    std::uint64_t block_bytes(std::uint64_t requested_bytes) const;
    // The bytes that the allocator asks from the driver for a block.
    std::uint64_t segment_bytes(std::uint64_t block_bytes) const;
};

constexpr bool is_small(std::uint64_t block_bytes) { return block_bytes <= kMostSmallBytes; }

constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace msmemscope::replay
