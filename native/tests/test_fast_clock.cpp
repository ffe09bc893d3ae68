// A clock that is read from a counter says the same as CLOCK_REALTIME. That holds on this machine, and on machines
// whose clock is set, which sleep, or whose counter is reset.
#include <cerrno>
#include <thread>
#include <vector>

#include "check.h"
#include "core/writer/fast_clock.h"

namespace {

constexpr std::uint64_t kMillisecond = 1000000;
constexpr std::uint64_t kSecond = 1000000000;

// A machine with a counter of 2.5 GHz.
struct FakeTime {
    static inline std::uint64_t real_ns = 1700000000 * kSecond;
    static inline std::uint64_t counts = 5000;
    static inline double counts_per_ns = 2.5;
    static inline bool steady = true;
    static inline int clock_readings = 0;
    // How long a thread is interrupted between reading the counter and the clock.
    static inline std::vector<std::uint64_t> interruptions;

    static void pass(std::uint64_t ns) {
        real_ns += ns;
        counts += static_cast<std::uint64_t>(static_cast<double>(ns) * counts_per_ns);
    }
    static std::uint64_t clock_ns() {
        ++clock_readings;
        if (!interruptions.empty()) {
            pass(interruptions.back());
            interruptions.pop_back();
        }
        return real_ns;
    }
    static std::uint64_t counter() { return counts; }
    static bool is_steady() { return steady; }
};

using Clock = msmemscope::CounterClock<FakeTime>;

std::uint64_t error_of(Clock& clock) {
    const std::uint64_t said = clock.now_ns();
    return said > FakeTime::real_ns ? said - FakeTime::real_ns : FakeTime::real_ns - said;
}

// Reads it for a while; returns the largest error.
std::uint64_t largest_error(Clock& clock, int readings, std::uint64_t apart_ns) {
    std::uint64_t largest = 0;
    for (int number = 0; number < readings; ++number) {
        FakeTime::pass(apart_ns);
        largest = std::max(largest, error_of(clock));
    }
    return largest;
}

void check_that_the_clock_is_seldom_asked() {
    Clock clock{};
    CHECK(largest_error(clock, 2000, 1000) <= 2);
    FakeTime::clock_readings = 0;
    CHECK(largest_error(clock, 100000, 1000) <= 2);
    CHECK(FakeTime::clock_readings >= 90);  // 100 ms
    CHECK(FakeTime::clock_readings <= 110);
}

void check_a_clock_that_is_set() {
    for (const std::int64_t step : {std::int64_t{3600}, std::int64_t{-3600}, std::int64_t{1}, std::int64_t{-1}}) {
        Clock clock{};
        largest_error(clock, 5000, 1000);
        FakeTime::real_ns += static_cast<std::uint64_t>(step) * kSecond;
        largest_error(clock, 2000, 1000);  // up to a millisecond late
        CHECK(largest_error(clock, 50000, 1000) <= 2);
    }
}

void check_a_clock_that_is_set_while_the_rate_is_learned() {
    Clock clock{};
    largest_error(clock, 500, 1000);
    FakeTime::real_ns += kSecond / 2;
    largest_error(clock, 5000, 1000);
    CHECK(largest_error(clock, 50000, 1000) <= 2);
}

void check_a_machine_that_sleeps() {
    Clock clock{};
    largest_error(clock, 5000, 1000);
    FakeTime::real_ns += 100 * kSecond;  // the counter stood still
    largest_error(clock, 2000, 1000);
    CHECK(largest_error(clock, 50000, 1000) <= 2);
    FakeTime::counts = 7;  // and begins anew
    CHECK(largest_error(clock, 50000, 1000) <= 2);
}

void check_a_clock_that_is_slewed() {
    Clock clock{};
    largest_error(clock, 5000, 1000);
    FakeTime::counts_per_ns = 2.5 * 1.0005;
    CHECK(largest_error(clock, 3000000, 1000) <= 600);  // 500 ppm of a millisecond, and what is rounded
    FakeTime::counts_per_ns = 2.5;
    CHECK(largest_error(clock, 3000000, 1000) <= 600);
}

void check_long_pauses() {
    Clock clock{};
    CHECK(largest_error(clock, 100, 10 * kSecond) <= 2);
    CHECK(largest_error(clock, 100, 30 * kMillisecond) <= 2);
    CHECK(largest_error(clock, 10000, 1000) <= 2);
}

void check_interrupted_readings() {
    Clock clock{};
    largest_error(clock, 5000, 1000);
    for (int number = 0; number < 200; ++number) {
        FakeTime::interruptions.assign(2, 300000);  // two of three
        FakeTime::pass(kMillisecond);
        CHECK(error_of(clock) <= 2);
    }
    for (int number = 0; number < 200; ++number) {
        FakeTime::interruptions.assign(3, 300000);  // all: what is returned is still what the clock said
        FakeTime::pass(kMillisecond);
        clock.now_ns();
        CHECK(largest_error(clock, 10, 1000) <= 300000);
    }
    FakeTime::interruptions.clear();
    largest_error(clock, 3000, 1000);
    CHECK(largest_error(clock, 50000, 1000) <= 300);
}

void check_that_it_does_not_go_back() {
    Clock clock{};
    std::uint64_t before = clock.now_ns();
    for (int number = 0; number < 1000000; ++number) {
        // A counter that is read a little early or late, and a clock that is slewed to and fro.
        FakeTime::counts_per_ns = number / 1000 % 2 == 0 ? 2.501 : 2.499;
        FakeTime::pass(700);
        const std::uint64_t now = clock.now_ns();
        CHECK(now >= before);
        before = now;
    }
    FakeTime::counts_per_ns = 2.5;
    FakeTime::real_ns -= 3600 * kSecond;  // unless it is set back
    largest_error(clock, 5000, 1000);
    CHECK(clock.now_ns() < before);
}

void check_without_a_steady_counter() {
    FakeTime::steady = false;
    Clock clock{};
    FakeTime::clock_readings = 0;
    for (int number = 0; number < 1000; ++number) {
        FakeTime::real_ns += 1000;
        FakeTime::counts = 0;
        CHECK_EQUAL(clock.now_ns(), FakeTime::real_ns);
    }
    CHECK_EQUAL(FakeTime::clock_readings, 1000);
    FakeTime::steady = true;
}

// The time that it tells lies between those that the clock told before and after. Meanwhile the processor's counter may
// be a little off.
void check_this_machine() {
    constexpr std::uint64_t kOff = 100000;
    msmemscope::FastClock clock{};
    errno = 42;
    std::uint64_t before = 0;
    const std::uint64_t begin = msmemscope::MachineTime::clock_ns();
    while (msmemscope::MachineTime::clock_ns() - begin < 200 * kMillisecond) {
        const std::uint64_t least = msmemscope::MachineTime::clock_ns();
        const std::uint64_t now = clock.now_ns();
        const std::uint64_t most = msmemscope::MachineTime::clock_ns();
        CHECK(now + kOff >= least);
        CHECK(now <= most + kOff);
        CHECK(now >= before);
        before = now;
    }
    CHECK_EQUAL(errno, 42);
}

}  // namespace

int main() {
    check_that_the_clock_is_seldom_asked();
    check_a_clock_that_is_set();
    check_a_clock_that_is_set_while_the_rate_is_learned();
    check_a_machine_that_sleeps();
    check_a_clock_that_is_slewed();
    check_long_pauses();
    check_interrupted_readings();
    check_that_it_does_not_go_back();
    check_without_a_steady_counter();
    check_this_machine();
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back(check_this_machine);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return 0;
}
