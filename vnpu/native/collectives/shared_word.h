// A number in shared memory that a rank changes and others wait for: a few looks, then sleep in the kernel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace virtual_npu {

// How long a rank sleeps before it looks whether the others are still there.
constexpr std::chrono::milliseconds kLookAfter{50};

struct SharedWord {
    std::atomic<uint32_t> value;
    std::atomic<uint32_t> sleepers;  // spares the system call where nobody sleeps

    uint32_t get() const { return value.load(std::memory_order_acquire); }
    void set(uint32_t number);
    void increase();

    // Returns when the value is no longer `seen`, or after kLookAfter; callers look again in a loop.
    // False if the time passed.
    bool wait_while(uint32_t seen);
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "lies in memory that processes share");

}  // namespace virtual_npu
