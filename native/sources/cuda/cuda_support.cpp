#include "sources/cuda/cuda_support.h"

#include "sources/cuda/caching_allocator.h"
#include "sources/cuda/device_usage.h"
#include "sources/cuda/devices.h"
#include "sources/loaded_function.h"

namespace msmemscope::cuda {
namespace {

LoadedFunction<int(void*, unsigned long long, std::size_t)> copy_from_device("cuMemcpyDtoH_v2");

bool is_cuda(format::Device device) noexcept { return format::is_of_kind(device, format::DeviceKind::kCuda); }

bool copy_to_host(void* target, std::uint64_t source, std::size_t bytes) noexcept {
    const auto copy = copy_from_device.get();
    return copy != nullptr && copy(target, source, bytes) == kSuccess;
}

void record_figures(const RecordingScope& scope) noexcept {
    record_usage_again(scope);
    record_reserved_again(scope);
}

}  // namespace

// Nobody waits for a device: that would begin to use one, and end the capture of a graph.
const DeviceSupport kCudaSupport = {is_cuda, prepare_device_memory, device_memory,  pool_of,
                                    nullptr, copy_to_host,          record_figures, nullptr};

}  // namespace msmemscope::cuda
