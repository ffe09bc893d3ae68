#include "sources/cuda/devices.h"

#include <atomic>
#include <iterator>

#include "interpose/patcher.h"
#include "sources/visible_devices.h"

namespace msmemscope::cuda {
namespace {

VisibleByVariable visible("CUDA_VISIBLE_DEVICES", true);

using GetDevice = int (*)(int*);

// Both number devices as the program sees them. The driver knows the context that the program uses; there can be two
// runtimes, and each has a current device of its own.
constexpr const char* kGetDevice[] = {"cuCtxGetDevice", "cudaGetDevice"};
std::atomic<GetDevice> known[std::size(kGetDevice)];

// Null until one is loaded.
GetDevice function_of(std::size_t place) noexcept {
    GetDevice function = known[place].load(std::memory_order_relaxed);
    if (function == nullptr) {
        function = reinterpret_cast<GetDevice>(find_function(kGetDevice[place]));
        known[place].store(function, std::memory_order_relaxed);
    }
    return function;
}

}  // namespace

format::Device device_of_runtime(int number) noexcept {
    return format::device_of(format::DeviceKind::kCuda, visible.physical(number));
}

int current_device() noexcept {
    for (std::size_t place = 0; place < std::size(kGetDevice); ++place) {
        const GetDevice get = function_of(place);
        int number = -1;
        if (get != nullptr && get(&number) == kSuccess) {
            return number;
        }
    }
    return -1;
}

}  // namespace msmemscope::cuda
