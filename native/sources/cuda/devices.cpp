#include "sources/cuda/devices.h"

#include "sources/loaded_function.h"
#include "sources/visible_devices.h"

namespace msmemscope::cuda {
namespace {

VisibleByVariable visible("CUDA_VISIBLE_DEVICES", true);

// Both number devices as the program sees them. The driver knows the context that the program uses; there can be two
// runtimes, and each has a current device of its own.
LoadedFunction<int(int*)> get_device[] = {LoadedFunction<int(int*)>("cuCtxGetDevice"),
                                          LoadedFunction<int(int*)>("cudaGetDevice")};

}  // namespace

format::Device device_of_runtime(int number) noexcept {
    return format::device_of(format::DeviceKind::kCuda, visible.physical(number));
}

int current_device() noexcept {
    for (LoadedFunction<int(int*)>& function : get_device) {
        const auto get = function.get();
        int number = -1;
        if (get != nullptr && get(&number) == kSuccess) {
            return number;
        }
    }
    return -1;
}

}  // namespace msmemscope::cuda
