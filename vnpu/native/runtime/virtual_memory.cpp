// Addresses and physical memory apart from each other, as expandable segments use them; and their way into another
// process.
#include <unistd.h>

#include <cstdint>

#include "devices.h"
#include "driver.h"
#include "runtime_errors.h"
#include "settings.h"
#include "stream_work.h"

namespace {

// aclrtPhysicalMemProp: 32 bytes.
struct PhysicalMemoryProperties {
    int32_t handle_type;
    int32_t allocation_type;
    int32_t memory_attribute;
    uint32_t location_id;
    int32_t location_type;  // 0 host, 1 device
    uint64_t reserved;
};
static_assert(sizeof(PhysicalMemoryProperties) == 32);

constexpr size_t kGranularity = size_t{2} << 20;

int translated(drvError_t status, const char* what) {
    if (status == DRV_ERROR_NONE) return virtual_npu::kAclSuccess;
    if (status == DRV_ERROR_OUT_OF_MEMORY) return virtual_npu::fail(virtual_npu::kAclOutOfMemory, "EL0004: %s", what);
    return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: %s: the driver refuses the arguments", what);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtReserveMemAddress(void** pointer, size_t bytes, size_t alignment, void* hint, uint64_t flags) {
    return translated(halMemAddressReserve(pointer, bytes, alignment, hint, flags), "aclrtReserveMemAddress");
}
EXPORTED int aclrtReleaseMemAddress(void* pointer) {
    return translated(halMemAddressFree(pointer), "aclrtReleaseMemAddress");
}

EXPORTED int aclrtMallocPhysical(drv_mem_handle_t** handle, size_t bytes, const PhysicalMemoryProperties* wanted,
                                 uint64_t flags) {
    drv_mem_prop properties{};
    properties.side = wanted->location_type == 1 ? 1 : 0;
    properties.devid = wanted->location_type == 1 ? virtual_npu::driver_device(wanted->location_id) : 0;
    properties.module_id = virtual_npu::kModuleApplication;
    properties.pg_type = 1;
    return translated(halMemCreate(handle, bytes, &properties, flags), "aclrtMallocPhysical");
}
EXPORTED int aclrtFreePhysical(drv_mem_handle_t* handle) {
    return translated(halMemRelease(handle), "aclrtFreePhysical");
}
EXPORTED int aclrtMapMem(void* pointer, size_t bytes, size_t offset, drv_mem_handle_t* handle, uint64_t flags) {
    return translated(halMemMap(pointer, bytes, offset, handle, flags), "aclrtMapMem");
}
EXPORTED int aclrtUnmapMem(void* pointer) {
    if (virtual_npu::settings().asynchronous) virtual_npu::wait_for_all_devices();
    return translated(halMemUnmap(pointer), "aclrtUnmapMem");
}

EXPORTED int aclrtMemGetAllocationGranularity(const PhysicalMemoryProperties*, int, size_t* granularity) {
    *granularity = kGranularity;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtMemExportToShareableHandle(drv_mem_handle_t* handle, int, uint64_t, uint64_t* shareable) {
    *shareable = virtual_npu_export_memory(handle);
    if (*shareable != 0) return virtual_npu::kAclSuccess;
    return virtual_npu::fail(virtual_npu::kAclUnsupported, "EE1001: this physical memory cannot be exported");
}
EXPORTED int aclrtMemImportFromShareableHandle(uint64_t shareable, int32_t device, drv_mem_handle_t** handle) {
    return translated(virtual_npu_import_memory(shareable, virtual_npu::driver_device(device), handle),
                      "aclrtMemImportFromShareableHandle");
}
// Which processes may import: any of this user, as far as the kernel of the machine is concerned.
EXPORTED int aclrtMemSetPidToShareableHandle(uint64_t, int32_t*, size_t) { return virtual_npu::kAclSuccess; }
EXPORTED int aclrtDeviceGetBareTgid(int32_t* pid) {
    *pid = static_cast<int32_t>(getpid());
    return virtual_npu::kAclSuccess;
}
