#include "core/writer/process_memory.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "core/writer/kernel_text.h"
#include "core/writer/mappings.h"
#include "core/writer/monotonic_clock.h"

namespace msmemscope {
namespace {

constexpr std::uint64_t kHeapTimeAtFirstNs = 20'000'000;
constexpr std::uint64_t kHeapShareOfTime = 200;
std::atomic<std::uint64_t> heap_first_asked_ns{0};
std::atomic<std::uint64_t> heap_time_ns{0};

// Of glibc 2.33 and later, with fields as its malloc.h has them.
struct HeapState {
    std::size_t fields[8];
    std::size_t free_bytes;
    std::size_t trimmable_bytes;
};
std::atomic<HeapState (*)()> ask_heap{nullptr};

bool has_time_left(std::uint64_t now) noexcept {
    std::uint64_t first = 0;
    if (heap_first_asked_ns.compare_exchange_strong(first, now, std::memory_order_relaxed)) {
        first = now;
    }
    return heap_time_ns.load(std::memory_order_relaxed) <= kHeapTimeAtFirstNs + (now - first) / kHeapShareOfTime;
}

// Long lists of groups push lines of /proc/self/status out of reach: then they are not known.
constexpr std::size_t kStatusBytes = 1536;
constexpr std::size_t kRollupBytes = 1024;

// Bytes of a line of the kernel: "VmRSS:     1696 kB".
std::uint64_t bytes_of_line(const char* text, const char* name) noexcept {
    unsigned long long kibibytes = 0;
    const char* const place = std::strstr(text, name);
    const bool is_found = place != nullptr && std::sscanf(place + std::strlen(name), "%llu", &kibibytes) == 1;
    return is_found ? kibibytes << 10U : 0;
}

}  // namespace

ProcessMemory process_memory() noexcept {
    char text[128];
    if (!read_kernel_text("/proc/self/statm", text)) {
        return {0, 0};
    }
    // Pages: all that is mapped, what is resident, and what of that has a file or is shared.
    unsigned long long resident = 0;
    unsigned long long shared = 0;
    if (std::sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || shared > resident) {
        return {0, 0};
    }
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return {resident * page, (resident - shared) * page};
}

std::uint64_t shared_memory() noexcept {
    char text[kStatusBytes];
    return read_kernel_text("/proc/self/status", text) ? bytes_of_line(text, "\nRssShmem:") : 0;
}

OwnMemory own_memory() noexcept {
    char text[kRollupBytes];
    if (!read_kernel_text("/proc/self/smaps_rollup", text)) {
        return {0, 0};
    }
    return {bytes_of_line(text, "\nPrivate_Clean:") + bytes_of_line(text, "\nPrivate_Dirty:"),
            bytes_of_line(text, "\nPss:")};
}

bool is_anonymous(std::uint64_t address) noexcept {
    bool is_private = false;
    visit_mappings([&](const Mapping& mapping) {
        const bool is_found = mapping.first <= address && address < mapping.last;
        is_private = is_found && mapping.rights[3] == 'p' && mapping.inode == 0;
        return is_found;
    });
    return is_private;
}

void find_heap() noexcept {
    // Its own function, whatever allocator is preloaded: the locks of that one may be held where we ask.
    void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) {
        ask_heap.store(reinterpret_cast<HeapState (*)()>(dlsym(library, "mallinfo2")), std::memory_order_release);
    }
}

std::uint64_t kept_by_the_heap(HeapPages* pages, bool is_last) noexcept {
    HeapState (*const ask)() = ask_heap.load(std::memory_order_acquire);
    if (ask == nullptr || !(is_last || has_time_left(monotonic_ns()))) {
        return 0;
    }
    const std::uint64_t begin = thread_time_ns();
    const std::uint64_t free_bytes = ask().free_bytes;
    heap_time_ns.fetch_add(thread_time_ns() - begin, std::memory_order_relaxed);
    const std::uint64_t absent_bytes = pages == nullptr ? 0 : pages->absent_bytes(is_last);
    return std::max<std::uint64_t>(free_bytes - std::min(free_bytes, absent_bytes), 1);
}

}  // namespace msmemscope
