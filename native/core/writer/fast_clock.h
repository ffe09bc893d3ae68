// CLOCK_REALTIME, read from the processor's counter: a third of the time that clock_gettime takes.
//
// Only where the kernel keeps its own time by that counter. About every millisecond the clock is asked itself, so that
// a clock that is set, slewed, or a machine that slept shows at once. A thread never sees its clock go back, unless it
// was set back.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <sys/prctl.h>
#include <x86intrin.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/writer/keep_errno.h"

namespace msmemscope {

// The counter of this machine and its clock.
struct MachineTime {
    static std::uint64_t clock_ns() noexcept {
        timespec now{};
        clock_gettime(CLOCK_REALTIME, &now);
        return static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
    }

    static std::uint64_t counter() noexcept {
#if defined(__x86_64__)
        return __rdtsc();
#elif defined(__aarch64__)
        std::uint64_t value = 0;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
        return value;
#else
        return 0;
#endif
    }

    // Whether the kernel has found the counter to be the same on all processors, and steady.
    static bool is_steady() noexcept {
        static std::atomic<int> known{-1};
        int answer = known.load(std::memory_order_relaxed);
        if (answer < 0) {
            answer = ask_kernel() ? 1 : 0;
            known.store(answer, std::memory_order_relaxed);
        }
        return answer == 1;
    }

private:
    static bool ask_kernel() noexcept {
        const KeepErrno keep_errno;
#if defined(__x86_64__)
        const char kName[] = "tsc\n";
        int access = 0;
        if (prctl(PR_GET_TSC, &access) == 0 && access != PR_TSC_ENABLE) {
            return false;  // the program, or a debugger, does not let anybody read it
        }
#elif defined(__aarch64__)
        const char kName[] = "arch_sys_counter\n";
#else
        const char kName[] = "";
#endif
        const int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
        if (file < 0) {
            return false;
        }
        char text[32];
        const ssize_t bytes = read(file, text, sizeof(text));
        close(file);
        return bytes > 1 && bytes == static_cast<ssize_t>(std::strlen(kName)) &&
               std::memcmp(text, kName, static_cast<std::size_t>(bytes)) == 0;
    }
};

// One per thread. Zeros are a valid clock that was never read.
template <typename Time>
class CounterClock {
public:
    std::uint64_t now_ns() noexcept {
        std::uint64_t now = 0;
        if (span_ != 0) {
            const std::uint64_t passed = Time::counter() - anchor_.count;
            if (__builtin_expect(passed < span_, 1)) {
                now = anchor_.ns + (passed * rate_ >> kRateBits);
            }
        }
        if (__builtin_expect(now == 0, 0)) {
            now = ask_clock();
        }
        if (__builtin_expect(now < latest_, 0) && latest_ - now <= kSpanNs) {
            now = latest_;
        }
        latest_ = now;
        return now;
    }

private:
    struct Reading {
        std::uint64_t count;
        std::uint64_t ns;
    };

    static constexpr unsigned kRateBits = 32;
    static constexpr std::uint64_t kSpanNs = 1000000;
    static constexpr std::uint64_t kLongestBaseNs = 1000000000;
    // A clock is slewed by a little, and two readings are off by a little. If the error is larger than that, the clock
    // was set or the machine slept.
    static constexpr std::uint64_t kLargestErrorNs = 20000;
    static constexpr unsigned kLargestErrorShift = 10;
    static constexpr int kTries = 3;
    // Of a span: how long a reading may take that is good enough.
    static constexpr std::uint64_t kShortPart = 4096;

    __attribute__((noinline)) std::uint64_t ask_clock() noexcept {
        if (!Time::is_steady()) {
            return Time::clock_ns();
        }
        const Reading reading = read_both();
        if (!learn_rate(reading)) {
            base_ = reading;
            rate_ = 0;
            span_ = 0;
        } else if (rate_ != 0) {
            anchor_ = reading;
            span_ = (kSpanNs << kRateBits) / rate_;
        }
        return reading.ns;
    }

    // Both as they are at one moment: as threads are interrupted, of a few readings the one that took the least time.
    Reading read_both() const noexcept {
        Reading best{};
        std::uint64_t shortest = ~std::uint64_t{0};
        for (int number = 0; number < kTries; ++number) {
            const std::uint64_t before = Time::counter();
            const std::uint64_t ns = Time::clock_ns();
            const std::uint64_t took = Time::counter() - before;
            if (took < shortest) {
                shortest = took;
                best = {before + took / 2, ns};
            }
            if (took < span_ / kShortPart) {
                break;
            }
        }
        return best;
    }

    // Learns from an earlier reading, up to a second back. False if the two readings do not fit the known rate.
    bool learn_rate(const Reading& reading) noexcept {
        const std::uint64_t counts = reading.count - base_.count;
        const std::uint64_t ns = reading.ns - base_.ns;
        if (base_.count == 0 || reading.ns < base_.ns || reading.count <= base_.count) {
            return false;
        }
        if (rate_ == 0 && ns > kLongestBaseNs) {
            return false;
        }
        if (rate_ != 0) {
            const auto expected =
                static_cast<std::uint64_t>(static_cast<unsigned __int128>(counts) * rate_ >> kRateBits);
            const std::uint64_t error = expected > ns ? expected - ns : ns - expected;
            if (error > kLargestErrorNs + (ns >> kLargestErrorShift)) {
                return false;
            }
        }
        if (ns < kSpanNs) {
            return true;  // too little to tell
        }
        rate_ = static_cast<std::uint64_t>((static_cast<unsigned __int128>(ns) << kRateBits) / counts);
        if (ns > kLongestBaseNs) {
            base_ = reading;
        }
        return rate_ != 0 && rate_ <= kSpanNs << kRateBits;
    }

    Reading anchor_;
    // Nanoseconds per count, in units of 2^-32; 0: not known yet.
    std::uint64_t rate_;
    // Counts for which the anchor is good; 0: none.
    std::uint64_t span_;
    std::uint64_t latest_;
    Reading base_;
};

using FastClock = CounterClock<MachineTime>;

}  // namespace msmemscope
