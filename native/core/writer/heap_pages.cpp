#include "core/writer/heap_pages.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "core/writer/mappings.h"
#include "core/writer/monotonic_clock.h"
#include "core/writer/resident_pages.h"

namespace msmemscope {
namespace {

// glibc gives an arena other than the main one heaps of its own. Each lies at a multiple of 64 MiB. It is open up to
// what is in use, and closed from there to the next multiple (HEAP_MAX_SIZE of 64 bit machines).
constexpr std::uint64_t kArenaHeapBytes = 64UL << 20U;
constexpr std::size_t kMostHeaps = 256;
constexpr std::uint64_t kLookNs = 2'000'000'000;
constexpr std::uint64_t kShareOfTime = 100;
// Of each heap, which a microsecond each is taken for: 32 MiB.
constexpr std::size_t kPieces = 32;

struct Heap {
    std::uint64_t begin;
    std::uint64_t end;
};

// One thread at a time uses them.
std::atomic<bool> is_busy{false};
std::atomic<std::uint64_t> last_absent{0};
Heap heaps[kMostHeaps];
std::size_t heap_count = 0;
std::uint64_t looked_ns = 0;
std::uint64_t due_ns = 0;

void add_heap(std::uint64_t begin, std::uint64_t end) noexcept {
    if (heap_count < kMostHeaps) {
        heaps[heap_count++] = {begin, end};
    }
}

void find_heaps() noexcept {
    heap_count = 0;
    Heap open{0, 0};  // the mapping before, if it can be a heap of an arena
    visit_mappings([&open](const Mapping& mapping) {
        const bool is_closed = std::strncmp(mapping.rights, "---p", 4) == 0;
        if (is_closed && open.end == mapping.first && mapping.last == open.begin + kArenaHeapBytes) {
            add_heap(open.begin, open.end);
        }
        const bool can_be_heap = std::strncmp(mapping.rights, "rw-p", 4) == 0 && mapping.inode == 0;
        open = can_be_heap && mapping.first % kArenaHeapBytes == 0 ? Heap{mapping.first, mapping.last} : Heap{0, 0};
        if (open.end == open.begin + kArenaHeapBytes) {
            add_heap(open.begin, open.end);  // open up to its end
        }
        if (std::strstr(mapping.line, "[heap]") != nullptr) {
            add_heap(mapping.first, 0);
        }
        return false;
    });
}

}  // namespace

std::uint64_t absent_from_heaps(bool anew) noexcept {
    if (is_busy.exchange(true, std::memory_order_acquire)) {
        return last_absent.load(std::memory_order_relaxed);
    }
    const std::uint64_t now = monotonic_ns();
    if (!anew && now < due_ns) {
        is_busy.store(false, std::memory_order_release);
        return last_absent.load(std::memory_order_relaxed);
    }
    if (heap_count == 0 || now - looked_ns >= kLookNs) {
        find_heaps();
        looked_ns = now;
    }
    const auto end_of_main = reinterpret_cast<std::uint64_t>(sbrk(0));
    std::uint64_t absent = 0;
    for (std::size_t place = 0; place < heap_count; ++place) {
        const std::uint64_t begin = heaps[place].begin;
        // The main heap ends where the program's data does.
        const std::uint64_t end = heaps[place].end != 0 ? heaps[place].end : std::max(begin, end_of_main);
        absent += end - begin - resident_bytes(begin, end - begin, heaps[place].end != 0 ? kPieces : 8 * kPieces);
    }
    last_absent.store(absent, std::memory_order_relaxed);
    const std::uint64_t end_ns = monotonic_ns();
    due_ns = end_ns + kShareOfTime * (end_ns - now);
    is_busy.store(false, std::memory_order_release);
    return absent;
}

}  // namespace msmemscope
