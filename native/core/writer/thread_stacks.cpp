#include "core/writer/thread_stacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/writer/keep_errno.h"

namespace msmemscope {

void ThreadStacks::add(std::uint64_t place, std::uint64_t most_bytes, std::uint64_t known_bytes,
                       const SampleOrigin& origin) noexcept {
    for (std::size_t slot = 0; slot < kMost; ++slot) {
        Entry& entry = entries_[slot];
        std::uint64_t free = 0;
        if (entry.place.load(std::memory_order_relaxed) != 0 ||
            !entry.place.compare_exchange_strong(free, kFilling, std::memory_order_acquire)) {
            continue;
        }
        entry.most_bytes.store(most_bytes, std::memory_order_relaxed);
        entry.known_bytes.store(known_bytes, std::memory_order_relaxed);
        entry.name_id.store(origin.name_id, std::memory_order_relaxed);
        entry.python_stack_id.store(origin.python_stack_id, std::memory_order_relaxed);
        entry.native_stack_id.store(origin.native_stack_id, std::memory_order_relaxed);
        entry.place.store(place, std::memory_order_release);
        std::size_t end = end_.load(std::memory_order_relaxed);
        while (end <= slot && !end_.compare_exchange_weak(end, slot + 1, std::memory_order_release)) {
        }
        return;
    }
}

void ThreadStacks::remove(std::uint64_t place) noexcept {
    const std::size_t end = end_.load(std::memory_order_acquire);
    for (std::size_t slot = 0; slot < end; ++slot) {
        std::uint64_t expected = place;
        if (entries_[slot].place.load(std::memory_order_relaxed) == place &&
            entries_[slot].place.compare_exchange_strong(expected, 0, std::memory_order_release)) {
            return;
        }
    }
}

bool ThreadStacks::has(const ThreadStack& stack) const noexcept {
    return entries_[stack.slot].place.load(std::memory_order_acquire) == stack.place;
}

// The pages are asked for in pieces, from the upper end on, until a piece has none in memory. A frame may leave some
// pages untouched, but hardly a whole piece. Where a piece is not mapped as a whole the stack ends in it.
std::uint64_t ThreadStacks::resident_bytes(std::uint64_t place, std::uint64_t most_bytes) noexcept {
    const auto page = static_cast<std::uint64_t>(getpagesize());
    constexpr std::uint64_t kPiecePages = 64;
    const KeepErrno keep_errno;
    std::uint64_t end = (place | (page - 1)) + 1;
    std::uint64_t left = std::min(most_bytes / page, end / page);
    std::uint64_t resident = 0;
    std::uint64_t most_pages = kPiecePages;
    while (left != 0 && most_pages != 0) {
        unsigned char pages[kPiecePages];
        const std::uint64_t count = std::min(left, most_pages);
        if (mincore(reinterpret_cast<void*>(end - count * page), count * page, pages) != 0) {
            most_pages = count / 2;
            continue;
        }
        const auto found = static_cast<std::uint64_t>(
            std::count_if(pages, pages + count, [](unsigned char state) { return (state & 1U) != 0; }));
        resident += found * page;
        end -= count * page;
        left -= count;
        if (found == 0) {
            break;
        }
    }
    return resident;
}

}  // namespace msmemscope
