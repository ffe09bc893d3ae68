#include "core/writer/heap_pages.h"

#include <unistd.h>

#include <algorithm>

#include "core/writer/mappings.h"
#include "core/writer/monotonic_clock.h"
#include "core/writer/resident_pages.h"

namespace msmemscope {
namespace {

// glibc gives an arena other than the main one heaps of its own. Each lies at a multiple of 64 MiB. It is open up to
// what is in use, and closed from there to the next multiple (HEAP_MAX_SIZE of 64 bit machines).
constexpr std::uint64_t kArenaHeapBytes = 64UL << 20U;
constexpr std::uint64_t kFoundAgainNs = 2'000'000'000;
constexpr std::uint64_t kShareOfTime = 100;
// Of a heap of an arena, and of the main one: two microseconds each, of a megabyte.
constexpr std::size_t kPiecesOfArena = 32;
constexpr std::size_t kPiecesOfMain = 256;
// A program can have 65,530 mappings: those behind so many are not looked at.
constexpr std::size_t kMostMappings = 8192;

}  // namespace

void HeapPages::add(std::uint64_t begin, std::uint64_t end) noexcept {
    if (count_ < kMostHeaps) {
        heaps_[count_++] = {begin, end};
    }
}

void HeapPages::find() noexcept {
    count_ = 0;
    std::size_t seen = 0;
    Heap open{0, 0};  // the mapping before, if it can be a heap of an arena
    visit_mappings([&](const Mapping& mapping) {
        const bool is_closed = std::strncmp(mapping.rights, "---p", 4) == 0;
        if (is_closed && open.end == mapping.first && mapping.last == open.begin + kArenaHeapBytes) {
            add(open.begin, open.end);
        }
        const bool can_be_heap = std::strncmp(mapping.rights, "rw-p", 4) == 0 && mapping.inode == 0;
        open = can_be_heap && mapping.first % kArenaHeapBytes == 0 ? Heap{mapping.first, mapping.last} : Heap{0, 0};
        if (open.begin != 0 && open.end == open.begin + kArenaHeapBytes) {
            add(open.begin, open.end);  // open up to its end
        }
        if (std::strstr(mapping.line, "[heap]") != nullptr) {
            add(mapping.first, 0);
        }
        return ++seen >= kMostMappings;
    });
}

std::uint64_t HeapPages::ask() const noexcept {
    const auto end_of_main = reinterpret_cast<std::uint64_t>(sbrk(0));
    std::uint64_t absent = 0;
    for (std::size_t place = 0; place < count_; ++place) {
        const auto [begin, end] = heaps_[place];
        const std::uint64_t bytes = end != 0 ? end - begin : std::max(begin, end_of_main) - begin;
        absent += bytes - resident_bytes(begin, bytes, end != 0 ? kPiecesOfArena : kPiecesOfMain);
    }
    return absent;
}

std::uint64_t HeapPages::absent_bytes(bool anew) noexcept {
    if (is_busy_.exchange(true, std::memory_order_acquire)) {
        return last_absent_.load(std::memory_order_relaxed);
    }
    if (const std::uint64_t now = monotonic_ns(); anew || now >= due_ns_) {
        const std::uint64_t begin = thread_time_ns();
        if (count_ == 0 || now - found_ns_ >= kFoundAgainNs) {
            find();
            found_ns_ = now;
        }
        last_absent_.store(ask(), std::memory_order_relaxed);
        due_ns_ = now + kShareOfTime * (thread_time_ns() - begin);
    }
    is_busy_.store(false, std::memory_order_release);
    return last_absent_.load(std::memory_order_relaxed);
}

}  // namespace msmemscope
