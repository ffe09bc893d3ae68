#include "sources/torch_cpu/torch_cpu.h"

#include <cerrno>
#include <cstdint>

#include "core/observe/blocks.h"
#include "core/observe/host_samples.h"
#include "core/observe/out_of_memory.h"
#include "core/writer/recorder.h"

namespace msmemscope::torch_cpu {
namespace {

// Analyses tell sampled tensors by it.
constexpr const char* kSampledTensor = "c10::alloc_cpu";

int allocate(const Call<int(void**, std::size_t, std::size_t)>& call, void** memory, std::size_t alignment,
             std::size_t size_bytes) {
    const int result = call.real(memory, alignment, size_bytes);
    if (result == ENOMEM) {
        out_of_memory::record({"posix_memalign", format::kDeviceCpu, size_bytes, 0}, call.site);
    } else if (result != 0 || *memory == nullptr) {
        return result;
    } else if (recorder::settings().devices.cpu) {
        recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, reinterpret_cast<std::uint64_t>(*memory),
                                     size_bytes, call.site);
    } else if (host_samples::are_taken() && host_samples::is_due(size_bytes)) {
        // Where the CPU is left out, its tensors are host memory like any other.
        host_samples::note_allocation(*memory, size_bytes, kSampledTensor, call.site);
    }
    return result;
}

void free(const Call<void(void*)>& call, void* memory) {
    if (memory != nullptr) {
        recorder::observe_free(format::Pool::kHost, reinterpret_cast<std::uint64_t>(memory), call.site);
        if (host_samples::may_be_sample(memory)) {
            host_samples::end(memory);
        }
    }
    call.real(memory);
}

constexpr Hook kHookList[] = {
    hook<&allocate>("libc10.so", "posix_memalign", "torch_cpu", true),
    hook<&free>("libc10.so", "free", "torch_cpu", true),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

}  // namespace msmemscope::torch_cpu
