#include "offline/remote_call/stopped_thread.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "offline/remote_call/registers.h"
#include "offline/remote_call/remote_image.h"

namespace msmemscope::remote_call {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStopPatience{200};
constexpr std::chrono::microseconds kPoll{20};
constexpr std::size_t kMostVectorBytes = 1 << 17;  // AMX has 11 KiB, SVE of 2,048 bits 9 KiB
constexpr int kCausedByItself[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

// The kernel's mask has a bit for each of 64 signals, whatever the C library's type is.
std::uint64_t mask_of_all_others() noexcept {
    std::uint64_t mask = ~0ULL;
    for (const int signal : kCausedByItself) {
        mask &= ~(1ULL << static_cast<unsigned>(signal - 1));
    }
    return mask;
}

long ask(int request, pid_t thread, std::uintptr_t address, void* data) noexcept {
    return ptrace(static_cast<__ptrace_request>(request), thread, reinterpret_cast<void*>(address), data);
}

bool get_set(pid_t thread, int kind, std::vector<unsigned char>& bytes, std::size_t most) {
    bytes.resize(most);
    iovec place{bytes.data(), bytes.size()};
    if (ask(PTRACE_GETREGSET, thread, static_cast<std::uintptr_t>(kind), &place) != 0) {
        bytes.clear();
        return false;
    }
    bytes.resize(place.iov_len);
    return true;
}

bool set_set(pid_t thread, int kind, const void* bytes, std::size_t count) noexcept {
    iovec place{const_cast<void*>(bytes), count};
    return ask(PTRACE_SETREGSET, thread, static_cast<std::uintptr_t>(kind), &place) == 0;
}

Registers registers_of(const std::vector<unsigned char>& bytes) noexcept {
    Registers registers;
    std::memcpy(&registers.value, bytes.data(), sizeof registers.value);
    return registers;
}

int event_of(int status) noexcept { return status >> 16; }

// The number behind a word in what the kernel says of a thread; 0 if it does not.
pid_t number_of(const std::string& text, const char* word) noexcept {
    const std::size_t place = text.find(word);
    return place == std::string::npos ? 0 : std::atoi(text.c_str() + place + std::strlen(word));
}

// Whether a thread is a whole process that this one has started. Those that it has started, in their turn, are not.
bool is_child_of_this_process(pid_t thread) {
    const std::string text = file_text("/proc/" + std::to_string(thread) + "/status");
    return number_of(text, "\nTgid:") == thread && number_of(text, "\nPPid:") == getpid();
}

// Leaves the end of the process where it is.
bool has_ended(pid_t process) noexcept {
    siginfo_t found{};
    const int result =
        waitid(P_PID, static_cast<id_t>(process), &found, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL);
    return result == 0 && found.si_pid == process && found.si_code != CLD_STOPPED && found.si_code != CLD_TRAPPED;
}

}  // namespace

StoppedThread::StoppedThread(const RemoteMemory& memory, pid_t thread) : memory_(memory), thread_(thread) {}

StoppedThread::~StoppedThread() {
    if (is_traced_) {
        restore();
        ask(PTRACE_DETACH, thread_, 0, reinterpret_cast<void*>(static_cast<std::uintptr_t>(held_signal_)));
    }
}

StoppedThread::Wait StoppedThread::wait_for_stop(int& status, Clock::time_point until) const {
    for (;;) {
        if (is_own_child_ && has_ended(thread_)) {
            return Wait::kEnded;  // to be reaped by whoever has started it
        }
        const pid_t found = waitpid(thread_, &status, __WALL | WNOHANG);
        if (found == thread_) {
            return WIFSTOPPED(status) ? Wait::kStopped : Wait::kEnded;
        }
        if (found < 0 && errno != EINTR) {
            return Wait::kEnded;
        }
        if (Clock::now() >= until) {
            return Wait::kTooLong;
        }
        std::this_thread::sleep_for(kPoll);
    }
}

StopResult StoppedThread::stop() {
    is_own_child_ = is_child_of_this_process(thread_);
    if (ask(PTRACE_SEIZE, thread_, 0, nullptr) != 0) {
        return errno == ESRCH ? StopResult::kEnded : StopResult::kRefused;
    }
    if (ask(PTRACE_INTERRUPT, thread_, 0, nullptr) != 0) {
        return StopResult::kEnded;
    }
    const Clock::time_point until = Clock::now() + kStopPatience;
    for (;;) {
        int status = 0;
        const Wait wait = wait_for_stop(status, until);
        if (wait != Wait::kStopped) {
            return wait == Wait::kEnded ? StopResult::kEnded : StopResult::kBusy;
        }
        if (event_of(status) == PTRACE_EVENT_STOP) {
            is_traced_ = true;
            // Another signal than SIGTRAP says that all threads of the process stand still.
            return WSTOPSIG(status) == SIGTRAP && read_registers() ? StopResult::kStopped : StopResult::kBusy;
        }
        // A signal of the program came first. It is delivered; the stop is still asked for.
        ask(PTRACE_CONT, thread_, 0, reinterpret_cast<void*>(static_cast<std::uintptr_t>(WSTOPSIG(status))));
    }
}

bool StoppedThread::read_registers() {
    if (!get_set(thread_, NT_PRSTATUS, registers_, sizeof(Registers)) ||
        registers_.size() != sizeof(Registers::value) || !registers_of(registers_).is_ordinary()) {
        return false;
    }
    for (const int kind : kVectorKinds) {
        if (get_set(thread_, kind, vectors_, kMostVectorBytes)) {
            vector_kind_ = kind;
            return true;
        }
    }
    return false;
}

std::uint64_t StoppedThread::instruction() const noexcept { return registers_of(registers_).instruction(); }

std::uint64_t StoppedThread::stack() const noexcept { return registers_of(registers_).stack(); }

bool StoppedThread::is_waiting() const noexcept { return registers_of(registers_).is_waiting(memory_); }

bool StoppedThread::hold_signals() {
    std::uint64_t before = 0;
    std::uint64_t mask = mask_of_all_others();
    if (ask(PTRACE_GETSIGMASK, thread_, sizeof before, &before) != 0) {
        return false;
    }
    is_changed_ = true;
    signal_mask_ = before;
    return ask(PTRACE_SETSIGMASK, thread_, sizeof mask, &mask) == 0;
}

std::optional<std::uint64_t> StoppedThread::call(std::uint64_t function, std::uint64_t stack,
                                                 std::initializer_list<std::uint64_t> arguments,
                                                 std::chrono::milliseconds patience) {
    Registers registers = registers_of(registers_);
    is_changed_ = true;
    failure_ = 0;
    if (!registers.enter(memory_, function, stack, arguments) ||
        !set_set(thread_, NT_PRSTATUS, &registers.value, sizeof registers.value)) {
        return std::nullopt;
    }
    const Clock::time_point until = Clock::now() + patience;
    for (;;) {
        ask(PTRACE_CONT, thread_, 0, nullptr);
        int status = 0;
        Wait wait = wait_for_stop(status, until);
        if (wait == Wait::kTooLong) {
            // It stands somewhere in the function, for example at a lock. It gets its own registers back.
            ask(PTRACE_INTERRUPT, thread_, 0, nullptr);
            wait = wait_for_stop(status, Clock::now() + kStopPatience);
            is_traced_ = wait == Wait::kStopped;
            return std::nullopt;
        }
        if (wait == Wait::kEnded) {
            is_traced_ = false;
            return std::nullopt;
        }
        const int signal = WSTOPSIG(status);
        if (event_of(status) != 0) {
            continue;  // all threads of the process were stopped; this one stops when it is let go
        }
        if (signal == SIGSTOP) {
            held_signal_ = signal;
            continue;
        }
        std::vector<unsigned char> bytes;
        if (!get_set(thread_, NT_PRSTATUS, bytes, sizeof(Registers)) || bytes.size() != sizeof registers.value) {
            return std::nullopt;
        }
        const Registers found = registers_of(bytes);
        if (signal == SIGSEGV && found.instruction() == kNowhere) {
            return found.result();
        }
        failure_ = signal;
        return std::nullopt;
    }
}

void StoppedThread::restore() {
    if (!is_changed_) {
        return;
    }
    Registers registers = registers_of(registers_);
    registers.prepare_restart(memory_);
    set_set(thread_, vector_kind_, vectors_.data(), vectors_.size());
    set_set(thread_, NT_PRSTATUS, &registers.value, sizeof registers.value);
    if (signal_mask_.has_value()) {
        ask(PTRACE_SETSIGMASK, thread_, sizeof *signal_mask_, &*signal_mask_);
    }
}

}  // namespace msmemscope::remote_call
