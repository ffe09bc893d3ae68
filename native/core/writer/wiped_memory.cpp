#include "core/writer/wiped_memory.h"

#include <sys/mman.h>

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

}  // namespace msmemscope
