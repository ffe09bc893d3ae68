#include "shared_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace virtual_npu {
namespace {

constexpr int kLooks = 200;  // of a few nanoseconds each
constexpr int kYields = 4;   // with fewer cores than ranks, the one waited for may need this one

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Not the private kind: the word lies in a mapping that processes share.
long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* timeout) {
    return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

void wake_all(SharedWord* word) {
    if (word->sleepers.load(std::memory_order_seq_cst) > 0) futex(&word->value, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace

void SharedWord::set(uint32_t number) {
    value.store(number, std::memory_order_seq_cst);
    wake_all(this);
}

void SharedWord::increase() {
    value.fetch_add(1, std::memory_order_seq_cst);
    wake_all(this);
}

bool SharedWord::wait_while(uint32_t seen) {
    for (int look = 0; look < kLooks; ++look) {
        if (get() != seen) return true;
        relax();
    }
    for (int turn = 0; turn < kYields; ++turn) {
        sched_yield();
        if (get() != seen) return true;
    }
    const timespec timeout{0, std::chrono::nanoseconds(kLookAfter).count()};
    // Either the setter sees this sleeper, or the kernel sees the new value and returns at once.
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    futex(&value, FUTEX_WAIT, seen, &timeout);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
    return get() != seen;
}

}  // namespace virtual_npu
