// One thread of another process, stopped by ptrace: functions run in it, and it goes on as if it had never stood still.
//
// All calls come from the thread that made the object: the kernel lets no other one trace. If that thread ends, the
// kernel lets the stopped one go.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "offline/remote_call/remote_image.h"

namespace msmemscope::remote_call {

struct Registers;

enum class StopResult {
    kStopped,
    kRefused,  // it may not be traced, or somebody traces it
    kBusy,     // it did not stop, or its whole process is stopped
    kEnded,
};

class StoppedThread {
public:
    StoppedThread(const RemoteMemory& memory, pid_t thread);
    // Lets the thread go, with the registers, the signal mask and the pending stop that it had.
    ~StoppedThread();
    StoppedThread(const StoppedThread&) = delete;
    StoppedThread& operator=(const StoppedThread&) = delete;

    StopResult stop();

    // Where it stands.
    std::uint64_t instruction() const noexcept;
    std::uint64_t stack() const noexcept;
    // Whether it stands in a system call that waits.
    bool is_waiting() const noexcept;

    // Keeps the thread's signal handlers from running until it is let go. False: it could not be done.
    bool hold_signals();
    // Has the thread run a function of the C calling convention with at most six numbers. stack: its highest address.
    // Nothing: it did not return, since it failed or took too long.
    std::optional<std::uint64_t> call(std::uint64_t function, std::uint64_t stack,
                                      std::initializer_list<std::uint64_t> arguments,
                                      std::chrono::milliseconds patience);
    // The signal that stopped the last call; 0: it took too long, or the thread ended.
    int failure() const noexcept { return failure_; }

private:
    enum class Wait { kStopped, kTooLong, kEnded };

    Wait wait_for_stop(int& status, std::chrono::steady_clock::time_point until) const;
    bool read_registers();
    void restore();

    const RemoteMemory& memory_;
    pid_t thread_;
    bool is_own_child_ = false;
    bool is_traced_ = false;
    bool is_changed_ = false;
    int failure_ = 0;
    int held_signal_ = 0;
    std::optional<std::uint64_t> signal_mask_;
    std::vector<unsigned char> registers_;
    std::vector<unsigned char> vectors_;
    int vector_kind_ = 0;
};

}  // namespace msmemscope::remote_call
