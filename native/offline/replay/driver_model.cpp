#include "offline/replay/driver_model.h"

#include <iterator>

namespace msmemscope::replay {
namespace {

constexpr std::uint64_t kAddressSpaceBytes = 1ULL << 60;  // more than any recording asks for

}  // namespace

DriverModel::DriverModel(std::uint64_t capacity_bytes, AddressOrder order)
    : capacity_bytes_(capacity_bytes), order_(order), gaps_{{kFirstAddress, kAddressSpaceBytes}} {}

void DriverModel::reset(std::uint64_t first_address) {
    taken_bytes_ = 0;
    gaps_ = {{first_address, kAddressSpaceBytes}};
}

void DriverModel::hold(std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t end = address + rounded_up(bytes, kSmallSegmentBytes);
    auto gap = gaps_.upper_bound(address);
    if (gap != gaps_.begin()) {
        --gap;
    }
    while (gap != gaps_.end() && gap->first < end) {
        const auto [begin, room] = *gap;
        const std::uint64_t gap_end = begin + room;
        if (gap_end <= address) {
            ++gap;
            continue;
        }
        gap = gaps_.erase(gap);
        if (begin < address) {
            gaps_.emplace(begin, address - begin);
        }
        if (gap_end > end) {
            gaps_.emplace(end, gap_end - end);
        }
    }
}

bool DriverModel::take_bytes(std::uint64_t bytes) {
    if (taken_bytes_ > capacity_bytes_ || bytes > capacity_bytes_ - taken_bytes_) {
        return false;
    }
    taken_bytes_ += bytes;
    return true;
}

std::optional<std::uint64_t> DriverModel::place(std::uint64_t bytes) {
    const std::uint64_t whole = rounded_up(bytes, kSmallSegmentBytes);
    if (order_ == AddressOrder::kHighestGap) {
        for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
            if (gap->second >= whole) {
                const std::uint64_t address = gap->first + gap->second - whole;
                gap->second -= whole;
                if (gap->second == 0) {
                    gaps_.erase(std::next(gap).base());
                }
                return address;
            }
        }
        return std::nullopt;
    }
    for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
        if (gap->second >= whole) {
            const auto [address, room] = *gap;
            gaps_.erase(gap);
            if (room > whole) {
                gaps_.emplace(address + whole, room - whole);
            }
            return address;
        }
    }
    return std::nullopt;
}

void DriverModel::vacate(std::uint64_t address, std::uint64_t bytes) {
    if (order_ == AddressOrder::kRising) {
        return;
    }
    std::uint64_t begin = address;
    std::uint64_t end = address + rounded_up(bytes, kSmallSegmentBytes);
    auto following = gaps_.lower_bound(begin);
    if (following != gaps_.end() && following->first == end) {
        end += following->second;
        following = gaps_.erase(following);
    }
    if (following != gaps_.begin()) {
        const auto preceding = std::prev(following);
        if (preceding->first + preceding->second == begin) {
            begin = preceding->first;
            gaps_.erase(preceding);
        }
    }
    gaps_.emplace(begin, end - begin);
}

}  // namespace msmemscope::replay
