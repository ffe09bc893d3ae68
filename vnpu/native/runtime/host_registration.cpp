#include "host_registration.h"

#include <mutex>
#include <set>

#include "kernel_launch.h"

namespace virtual_npu {
namespace {

std::mutex guard;
std::set<void*>& registrations() {
    static auto* pointers = new std::set<void*>();
    return *pointers;
}

int add(void* pointer, uint64_t bytes) {
    if (pointer == nullptr || bytes == 0) return kRuntimeInvalidParameter;
    const std::lock_guard<std::mutex> lock(guard);
    return registrations().insert(pointer).second ? kRuntimeSuccess : kRuntimeInvalidParameter;
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtHostRegisterV2Impl(void* pointer, uint64_t bytes, uint32_t) {
    return virtual_npu::add(pointer, bytes);
}

EXPORTED int aclrtHostRegisterImpl(void* pointer, uint64_t bytes, int, void** device_pointer) {
    const int status = virtual_npu::add(pointer, bytes);
    if (status == virtual_npu::kRuntimeSuccess && device_pointer != nullptr) *device_pointer = pointer;
    return status;
}

EXPORTED int aclrtHostUnregisterImpl(void* pointer) {
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    return virtual_npu::registrations().erase(pointer) > 0 ? virtual_npu::kRuntimeSuccess
                                                           : virtual_npu::kRuntimeInvalidParameter;
}
