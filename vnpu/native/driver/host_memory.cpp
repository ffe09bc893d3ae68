// Memory of the host that a program makes visible to a device. The device of this machine is its host: the address is
// the same for both, and what is kept is only which pieces are registered.
#include <map>
#include <mutex>

#include "driver.h"

namespace virtual_npu {
namespace {

std::mutex guard;
std::map<void*, uint32_t>& registrations() {
    static auto* pointers = new std::map<void*, uint32_t>();
    return *pointers;
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED drvError_t halHostRegister(void* pointer, uint64_t bytes, uint32_t, uint32_t device, void** device_pointer) {
    if (pointer == nullptr || bytes == 0 || device_pointer == nullptr) return DRV_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    if (!virtual_npu::registrations().emplace(pointer, device).second) return DRV_ERROR_INVALID_VALUE;
    *device_pointer = pointer;
    return DRV_ERROR_NONE;
}

EXPORTED drvError_t halHostUnregister(void* pointer, uint32_t device) {
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    const auto place = virtual_npu::registrations().find(pointer);
    if (place == virtual_npu::registrations().end() || place->second != device) return DRV_ERROR_INVALID_VALUE;
    virtual_npu::registrations().erase(place);
    return DRV_ERROR_NONE;
}
