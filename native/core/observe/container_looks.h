// Looks at the containers of the program: when the next one is due, and what was found.
//
// A look follows references of Python objects, so it needs the interpreter at rest between two instructions. Samples of
// host memory and ends of blocks say that time has passed; whoever follows references is told of it, and decides when
// to look.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "core/writer/append.h"

namespace msmemscope {
namespace container_looks {

// A container with more entries than at the looks before.
struct Container {
    std::uint64_t address;
    std::uint64_t entries;
    std::uint64_t first_entries;   // at the look that saw it first
    std::uint64_t first_sequence;  // of the next event at that look
    std::uint64_t bytes;           // an estimate, with what its entries alone refer to
    const char* chain;             // of references, from a variable of the program
    const char* container_type;
    const char* entry_type;
};

#pragma GCC visibility push(default)
// ask is called when a sample is taken, or a block ends on the main thread, that much later, inside of the allocator,
// until it returns true: it may do next to nothing. Two threads may call it at once. A forked child awaits nothing.
void await(std::uint64_t delay_ns, bool (*ask)() noexcept) noexcept;
void await_no_more() noexcept;

// False if nothing is recorded.
bool note(const Container& container) noexcept;
#pragma GCC visibility pop

// The thread that evaluates what the interpreter is asked to call. Others leave the asking to it.
inline bool is_main_thread() noexcept { return thread_handle.thread_id == static_cast<std::uint32_t>(getpid()); }

bool is_due(std::uint64_t now_ns) noexcept;
// To be called with the time where a sample is taken.
void ask_if_due(std::uint64_t now_ns) noexcept;
// To be called with the number of each block that ends: the clock is read for one in a few. They are a prime number, as
// events come in groups: of two for each block, say.
inline void ask_at_some(std::uint64_t number) noexcept {
    constexpr std::uint64_t kOneIn = 61;
    if (__builtin_expect(number % kOneIn == 1, 0)) {
        const std::uint64_t now_ns = clock_ns();
        if (__builtin_expect(is_due(now_ns), 0) && is_main_thread()) {  // which is a system call
            ask_if_due(now_ns);
        }
    }
}
// The next one is due at the next sample.
void ask_now() noexcept;

}  // namespace container_looks
}  // namespace msmemscope
