#include "observers/torch_cpu/torch_cpu.h"

#include <cstdint>
#include <cstdlib>

#include "writer/recorder.h"

namespace msmemscope::torch_cpu {

int (*next_posix_memalign)(void**, std::size_t, std::size_t) = &::posix_memalign;
void (*next_free)(void*) = &::free;

int hooked_posix_memalign(void** memory, std::size_t alignment, std::size_t size_bytes) {
    const int result = next_posix_memalign(memory, alignment, size_bytes);
    if (result == 0 && *memory != nullptr) {
        const RecordingScope scope(true);
        if (scope && recorder::settings().observe_cpu) {
            recorder::block_allocated(scope, format::Pool::kHost, format::kDeviceCpu,
                                      reinterpret_cast<std::uint64_t>(*memory), size_bytes, MSMEMSCOPE_CALL_SITE());
        }
    }
    return result;
}

void hooked_free(void* memory) {
    if (memory != nullptr) {
        const auto address = reinterpret_cast<std::uint64_t>(memory);
        const RecordingScope scope(false);
        if (scope) {
            // Before the real free: another thread may be given the address right after it.
            recorder::block_freed(scope, format::Pool::kHost, address, MSMEMSCOPE_CALL_SITE());
        } else {
            recorder::block_freed_unseen(format::Pool::kHost, address);
        }
    }
    next_free(memory);
}

}  // namespace msmemscope::torch_cpu
