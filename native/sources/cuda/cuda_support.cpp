#include "sources/cuda/cuda_support.h"

#include "sources/cuda/caching_allocator.h"
#include "sources/cuda/device_usage.h"
#include "sources/cuda/devices.h"
#include "sources/cuda/graph_capture.h"
#include "sources/loaded_function.h"

namespace msmemscope::cuda {
namespace {

LoadedFunction<int(void*, unsigned long long, std::size_t)> copy_from_device("cuMemcpyDtoH_v2");
LoadedFunction<int()> synchronise_context("cuCtxSynchronize");

bool is_cuda(format::Device device) noexcept { return format::is_of_kind(device, format::DeviceKind::kCuda); }

bool copy_to_host(void* target, std::uint64_t source, std::size_t bytes) noexcept {
    const auto copy = copy_from_device.get();
    return copy != nullptr && !is_capturing() && copy(target, source, bytes) == kSuccess;
}

// Of the context that the program uses on this thread. It does not begin to use a device.
void synchronise() noexcept {
    const auto wait = synchronise_context.get();
    if (wait != nullptr && !is_capturing()) {
        wait();
    }
}

bool can_be_read() noexcept { return !is_capturing(); }

void record_figures(const RecordingScope& scope) noexcept {
    record_usage_again(scope);
    record_reserved_again(scope);
}

}  // namespace

const DeviceSupport kCudaSupport = {is_cuda,      prepare_device_memory, device_memory, pool_of,    nullptr,
                                    copy_to_host, record_figures,        synchronise,   can_be_read};

}  // namespace msmemscope::cuda
