#include "sources/cuda/devices.h"

#include <atomic>

#include "interpose/patcher.h"
#include "sources/visible_devices.h"

namespace msmemscope::cuda {
namespace {

VisibleByVariable visible("CUDA_VISIBLE_DEVICES", true);

using GetDevice = int (*)(int*);

// The runtime's function, or the driver's for a program without the runtime. Null until one is loaded.
GetDevice device_function() noexcept {
    static std::atomic<GetDevice> known{nullptr};
    GetDevice function = known.load(std::memory_order_relaxed);
    if (function == nullptr) {
        function = reinterpret_cast<GetDevice>(find_function("cudaGetDevice"));
        if (function == nullptr) {
            function = reinterpret_cast<GetDevice>(find_function("cuCtxGetDevice"));
        }
        known.store(function, std::memory_order_relaxed);
    }
    return function;
}

}  // namespace

format::Device device_of_runtime(int number) noexcept {
    return format::device_of(format::DeviceKind::kCuda, visible.physical(number));
}

int current_device() noexcept {
    const GetDevice get = device_function();
    int number = -1;
    return get != nullptr && get(&number) == kSuccess ? number : -1;
}

}  // namespace msmemscope::cuda
