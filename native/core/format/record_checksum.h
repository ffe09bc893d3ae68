// A checksum of event records. Records that were damaged on a disk are left out because of it, and not believed.
//
// The checksum has eight lanes, one for each word of a record. The lanes do not wait for each other, so a record takes
// about as many cycles as it has words. The checksum is over the words as they lie in memory. It means nothing on a
// machine of the other byte order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope::format {

class RecordChecksum {
public:
    void add(const Record& record) noexcept {
        std::uint64_t words[kLanes];
        static_assert(sizeof(words) == sizeof(Record));
        __builtin_memcpy(words, &record, sizeof(words));
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            lanes_[lane] = (lanes_[lane] + words[lane]) * kFactor;
        }
    }

    // Never 0, which stands for no checksum.
    std::uint32_t value() const noexcept {
        std::uint64_t all = 0;
        for (const std::uint64_t lane : lanes_) {
            all = (all ^ lane ^ lane >> 32U) * kFactor;
        }
        const auto folded = static_cast<std::uint32_t>(all >> 32U);
        return folded != 0 ? folded : 1;
    }

private:
    static constexpr std::size_t kLanes = 8;
    static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15ULL;  // odd: no bit of a word is lost

    std::uint64_t lanes_[kLanes] = {};
};

}  // namespace msmemscope::format
