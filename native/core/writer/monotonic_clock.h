// Time that never goes back, as the time of day may: of the machine, and of this thread on a processor.
#pragma once

#include <cstdint>
#include <ctime>

namespace msmemscope {

inline std::uint64_t clock_ns(clockid_t clock) noexcept {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

inline std::uint64_t monotonic_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

// For limits of our own work: on a busy machine a thread waits long for a processor. To ask is a call of the kernel.
inline std::uint64_t thread_time_ns() noexcept { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace msmemscope
