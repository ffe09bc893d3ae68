// Functions that the compiler and the standard library's containers would otherwise take from libstdc++. There they may
// throw, and bring along all that exceptions need. That is 200 KB of code, and a block from the program's own malloc at
// the start of every observed process.
#include <sched.h>

#include <cstdint>
#include <cstdlib>

namespace std {

// No container of ours can become that long.
[[noreturn]] void __throw_length_error(const char*) {  // NOLINT(bugprone-reserved-identifier)
    abort();
}

}  // namespace std

// Once-only construction of objects within functions. Bytes of the guard, by the C++ ABI: 0: the object is there;
// the others are ours: 1: a thread is at it.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
int __cxa_guard_acquire(std::uint64_t* guard) {
    auto* const bytes = reinterpret_cast<unsigned char*>(guard);
    for (;;) {
        if (__atomic_load_n(&bytes[0], __ATOMIC_ACQUIRE) != 0) {
            return 0;
        }
        if (__atomic_exchange_n(&bytes[1], 1, __ATOMIC_ACQ_REL) == 0) {
            return 1;
        }
        sched_yield();
    }
}

void __cxa_guard_release(std::uint64_t* guard) {
    __atomic_store_n(reinterpret_cast<unsigned char*>(guard), 1, __ATOMIC_RELEASE);
}
// NOLINTEND(bugprone-reserved-identifier)
}
