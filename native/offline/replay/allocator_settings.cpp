#include "offline/replay/allocator_settings.h"

#include <algorithm>

namespace msmemscope::replay {
namespace {

int floor_of_log2(std::uint64_t number) { return 63 - __builtin_clzll(number); }

// Up to the next of `divisions` equal parts between two powers of two.
std::uint64_t rounded_to_division(std::uint64_t bytes, std::uint64_t divisions) {
    const std::uint64_t power = 1ULL << floor_of_log2(bytes);
    const std::uint64_t part = power >> floor_of_log2(divisions);
    if (part == 0) {
        return bytes == power ? power : power * 2;
    }
    return rounded_up(bytes, part);
}

}  // namespace

std::uint64_t AllocatorSettings::block_bytes(std::uint64_t requested_bytes) const {
    const std::uint64_t bytes = requested_bytes + padding_bytes;
    if (bytes < kBlockUnit) {
        return kBlockUnit;
    }
    const int interval = std::clamp(floor_of_log2(bytes) - floor_of_log2(kMiB), 0, 15);
    const std::uint64_t divisions = power2_divisions[static_cast<std::size_t>(interval)];
    if (divisions > 1 && bytes > kBlockUnit * divisions) {
        return rounded_to_division(bytes, divisions);
    }
    return rounded_up(bytes, kBlockUnit);
}

std::uint64_t AllocatorSettings::segment_bytes(std::uint64_t block_bytes) const {
    if (is_small(block_bytes)) {
        return kSmallSegmentBytes;
    }
    if (page_bytes > kSmallSegmentBytes) {
        return rounded_up(block_bytes, page_bytes);
    }
    return block_bytes < kOwnSegmentBytes ? large_segment_bytes : rounded_up(block_bytes, page_bytes);
}

}  // namespace msmemscope::replay
