#include "core/writer/wiped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace msmemscope {
void* map_wiped_memory(std::size_t bytes) noexcept {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return nullptr;
    }
    // Refused by kernels before 4.14: there the recorder's fork handler is alone.
    madvise(memory, bytes, MADV_WIPEONFORK);
    return memory;
}

void unmap_memory(void* memory, std::size_t bytes) noexcept { munmap(memory, bytes); }

std::size_t resident_bytes(const void* memory, std::size_t bytes) noexcept {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    unsigned char resident[256];
    std::size_t pages = 0;
    for (std::size_t place = 0; memory != nullptr && place < bytes; place += sizeof(resident) * page) {
        const std::size_t part = std::min(sizeof(resident) * page, bytes - place);
        auto* start = static_cast<unsigned char*>(const_cast<void*>(memory)) + place;
        if (mincore(start, part, resident) != 0) {
            return bytes;  // not told: the upper bound
        }
        for (std::size_t index = 0; index < (part + page - 1) / page; ++index) {
            pages += resident[index] & 1U;
        }
    }
    return pages * page;
}

}  // namespace msmemscope
