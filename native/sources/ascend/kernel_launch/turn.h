// Work that one thread of a process does while the others wait for it. Launches that went on meanwhile would not be
// reported.
//
// Waiting is bounded, as in writer/bounded_lock.h. A forked child can find the turn taken by a thread that it does not
// have. So the holder is known by its process, and a holder of another process holds nothing.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace msmemscope::kernel_launch {

// Who does it.
struct TurnState {
    std::atomic<std::uint64_t> holder{0};  // names the process of the thread whose turn it is, 0 if nobody's
    std::atomic<bool> waited_in_vain{false};
};

class Turn {
public:
    // process: names the calling process, never 0. Without success after about two seconds the turn is not taken, and
    // from then on nobody waits, until it was free again.
    Turn(TurnState& state, std::uint64_t process) noexcept
        : state_(state), taken_(process != 0 && wait(state, process)) {}
    ~Turn() {
        if (taken_) {
            state_.waited_in_vain.store(false, std::memory_order_relaxed);
            state_.holder.store(0, std::memory_order_release);
        }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    explicit operator bool() const noexcept { return taken_; }

private:
    static bool take(TurnState& state, std::uint64_t process) noexcept {
        std::uint64_t before = state.holder.load(std::memory_order_relaxed);
        return before != process && state.holder.compare_exchange_strong(before, process, std::memory_order_acquire);
    }

    static bool wait(TurnState& state, std::uint64_t process) noexcept {
        for (int attempt = 0; attempt < 20200; ++attempt) {
            if (take(state, process)) {
                return true;
            }
            if (state.waited_in_vain.load(std::memory_order_relaxed)) {
                return false;
            }
            if (attempt < 200) {
                sched_yield();
            } else {
                const timespec pause{0, 100000};
                nanosleep(&pause, nullptr);
            }
        }
        state.waited_in_vain.store(true, std::memory_order_relaxed);
        return false;
    }

    TurnState& state_;
    bool taken_;
};

}  // namespace msmemscope::kernel_launch
