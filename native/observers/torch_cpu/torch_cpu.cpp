#include "observers/torch_cpu/torch_cpu.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "observers/out_of_memory.h"
#include "writer/recorder.h"

namespace msmemscope::torch_cpu {

int (*next_posix_memalign)(void**, std::size_t, std::size_t) = &::posix_memalign;
void (*next_free)(void*) = &::free;

int hooked_posix_memalign(void** memory, std::size_t alignment, std::size_t size_bytes) {
    const int result = next_posix_memalign(memory, alignment, size_bytes);
    if (result == 0 && *memory != nullptr && recorder::settings().observe_cpu) {
        recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, reinterpret_cast<std::uint64_t>(*memory),
                                     size_bytes, MSMEMSCOPE_CALL_SITE());
    } else if (result == ENOMEM) {
        out_of_memory::record({"posix_memalign", format::kDeviceCpu, size_bytes, 0}, MSMEMSCOPE_CALL_SITE());
    }
    return result;
}

void hooked_free(void* memory) {
    if (memory != nullptr) {
        recorder::observe_free(format::Pool::kHost, reinterpret_cast<std::uint64_t>(memory), MSMEMSCOPE_CALL_SITE());
    }
    next_free(memory);
}

}  // namespace msmemscope::torch_cpu
