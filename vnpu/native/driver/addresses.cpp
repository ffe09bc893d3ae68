#include "addresses.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

namespace virtual_npu {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 47;  // all that a process can address

std::mutex guard;
// Begin to end.
std::map<uintptr_t, uintptr_t>& taken() {
    static auto* table = new std::map<uintptr_t, uintptr_t>();  // never destroyed: used by exit handlers
    return *table;
}

// With the guard held.
uintptr_t lowest_gap(uint64_t bytes) {
    uintptr_t begin = kFirstDeviceAddress;
    for (const auto& [next, end] : taken()) {
        if (next - begin >= bytes) break;
        begin = end;
    }
    return begin;
}

void* map(void* place, uint64_t bytes, int protection, int flags) {
    void* mapped = mmap(place, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
    return mapped == MAP_FAILED ? nullptr : mapped;
}

void* map_anywhere(uint64_t bytes, int protection) {
    void* place = map(nullptr, bytes + kGranule, protection, 0);
    if (place == nullptr) return nullptr;
    const auto begin = reinterpret_cast<uintptr_t>(place);
    const uintptr_t aligned = (begin + kGranule - 1) & ~uintptr_t{kGranule - 1};
    if (aligned > begin) munmap(place, aligned - begin);
    munmap(reinterpret_cast<void*>(aligned + bytes), begin + kGranule - aligned);
    return reinterpret_cast<void*>(aligned);
}

}  // namespace

void* take_addresses(uint64_t bytes, int protection) {
    if (bytes > kMostBytes) return nullptr;  // whole granules of it might be a small number
    bytes = (bytes + kGranule - 1) & ~(kGranule - 1);
    const std::lock_guard<std::mutex> lock(guard);
    const uintptr_t lowest = lowest_gap(bytes);
    void* const wanted = reinterpret_cast<void*>(lowest);
    void* const mapped = map(wanted, bytes, protection, MAP_FIXED_NOREPLACE);
    if (mapped == wanted) {
        taken().emplace(lowest, lowest + bytes);
        return mapped;
    }
    if (mapped != nullptr) munmap(mapped, bytes);  // a kernel or a sanitizer that takes the address for a wish
    return map_anywhere(bytes, protection);
}

void give_addresses_back(void* begin, uint64_t bytes) {
    bytes = (bytes + kGranule - 1) & ~(kGranule - 1);
    const std::lock_guard<std::mutex> lock(guard);
    munmap(begin, bytes);
    taken().erase(reinterpret_cast<uintptr_t>(begin));
}

}  // namespace virtual_npu
