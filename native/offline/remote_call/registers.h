// The general registers of a stopped thread, as the kernel lays them out, and the calling convention of C.
// Sources: System V ABI for AMD64, 3.2; AAPCS64, 6.4; arch/x86/kernel/signal.c and arch/arm64/kernel/signal.c of Linux
// for how a system call that waits is begun again.
#pragma once

#include <elf.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <time.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "offline/remote_call/remote_image.h"

namespace msmemscope::remote_call {

constexpr std::uint64_t kNowhere = 0;  // functions return here, which stops the thread

#if defined(__x86_64__)

constexpr int kVectorKinds[] = {NT_X86_XSTATE, NT_PRFPREG};
constexpr std::uint64_t kRedZoneBytes = 128;  // below the stack pointer, in use

struct Registers {
    user_regs_struct value{};

    std::uint64_t instruction() const noexcept { return value.rip; }
    std::uint64_t stack() const noexcept { return value.rsp; }
    std::uint64_t result() const noexcept { return value.rax; }

    // The kernel keeps the number of the call, and one of its own errors: it will begin the call again.
    bool is_waiting(const RemoteMemory&) const noexcept {
        const auto error = static_cast<std::int64_t>(value.rax);
        constexpr std::int64_t kInterrupted = -4;
        constexpr std::int64_t kFirstRestart = -512;
        constexpr std::int64_t kLastRestart = -516;
        return static_cast<std::int64_t>(value.orig_rax) >= 0 &&
               (error == kInterrupted || (error <= kFirstRestart && error >= kLastRestart));
    }

    bool is_ordinary() const noexcept {
        constexpr std::uint64_t kCodeOf64Bits = 0x33;
        return value.cs == kCodeOf64Bits;
    }

    // False: the stack could not be written.
    bool enter(const RemoteMemory& memory, std::uint64_t function, std::uint64_t top,
               std::initializer_list<std::uint64_t> arguments) noexcept {
        constexpr std::uint64_t kDirectionAndTrap = 0x500;
        unsigned long long* const places[] = {&value.rdi, &value.rsi, &value.rdx, &value.rcx, &value.r8, &value.r9};
        unsigned long long* const* place = places;
        for (const std::uint64_t argument : arguments) {
            **place++ = argument;
        }
        value.rip = function;
        value.rsp = (top & ~std::uint64_t{15}) - sizeof kNowhere;
        value.rax = 0;
        value.orig_rax = ~0ULL;  // no system call that could begin again
        value.eflags &= ~kDirectionAndTrap;
        return memory.write(value.rsp, &kNowhere, sizeof kNowhere);
    }

    void prepare_restart(const RemoteMemory&) noexcept {}  // the kernel does it, from these registers
};

#elif defined(__aarch64__)

constexpr int kVectorKinds[] = {NT_PRFPREG};
constexpr std::uint64_t kRedZoneBytes = 0;

struct Registers {
    user_regs_struct value{};

    std::uint64_t instruction() const noexcept { return value.pc; }
    std::uint64_t stack() const noexcept { return value.sp; }
    std::uint64_t result() const noexcept { return value.regs[0]; }

    // The kernel has gone back to the instruction before the thread stops, unless the call just fails.
    bool is_waiting(const RemoteMemory& memory) const noexcept {
        return is_system_call(memory, value.pc) ||
               (static_cast<std::int64_t>(value.regs[0]) == -4 && is_system_call(memory, value.pc - 4));
    }

    bool is_ordinary() const noexcept {
        constexpr std::uint64_t kCodeOf32Bits = 0x10;
        return (value.pstate & kCodeOf32Bits) == 0;
    }

    bool enter(const RemoteMemory&, std::uint64_t function, std::uint64_t top,
               std::initializer_list<std::uint64_t> arguments) noexcept {
        auto* place = value.regs;
        for (const std::uint64_t argument : arguments) {
            *place++ = argument;
        }
        value.regs[30] = kNowhere;
        value.pc = function;
        value.sp = top & ~std::uint64_t{15};
        return true;
    }

    // A call that waits for a length of time would wait for all of it again. The kernel knows how much is left.
    void prepare_restart(const RemoteMemory& memory) noexcept {
        const auto number = static_cast<long>(value.regs[8]);
        constexpr std::uint64_t kFlags = 0x180;  // private, and which clock
        const std::uint64_t operation = value.regs[1] & ~kFlags;
        const bool is_futex_wait = number == SYS_futex && (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET);
        const bool is_until = number == SYS_clock_nanosleep && (value.regs[1] & TIMER_ABSTIME) != 0;
        const bool is_sleep = (number == SYS_nanosleep || number == SYS_clock_nanosleep) && !is_until;
        const bool has_length = is_sleep || (is_futex_wait && value.regs[3] != 0);
        if (has_length && is_system_call(memory, value.pc)) {
            value.regs[8] = SYS_restart_syscall;
        }
    }

private:
    static bool is_system_call(const RemoteMemory& memory, std::uint64_t address) noexcept {
        constexpr std::uint32_t kSupervisorCall = 0xd4000001;
        std::uint32_t instruction = 0;
        return memory.read_value(address, instruction) && instruction == kSupervisorCall;
    }
};

#else
#error "msmemscope knows the registers of x86-64 and aarch64"
#endif

}  // namespace msmemscope::remote_call
