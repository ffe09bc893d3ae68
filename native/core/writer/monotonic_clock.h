// Time that never goes back, as the time of day may.
#pragma once

#include <cstdint>
#include <ctime>

namespace msmemscope {

inline std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace msmemscope
