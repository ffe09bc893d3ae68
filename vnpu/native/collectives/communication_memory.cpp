// libhcomm.so, the lower half of the collective library: memory of the device that collectives may use directly. The
// groups of calls, which callers look for here, are in libhccl.so, and are found through it.
#include "call_errors.h"
#include "driver.h"
#include "settings.h"

extern "C" int aclrtGetDevice(int32_t* device);

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int HcommMemAlloc(void** pointer, uint64_t bytes) {
    using namespace virtual_npu;
    int32_t device = 0;
    if (aclrtGetDevice(&device) != 0) return kHcclRuntime;  // which has set the text
    const unsigned long long flag = static_cast<unsigned long long>(visible_devices()[static_cast<size_t>(device)]) |
                                    (kKindDevice << kFlagKindShift) | kFlagHighBandwidth | kFlagHugePage |
                                    (kModuleCollectives << kFlagModuleShift);
    if (halMemAlloc(pointer, bytes, flag) == DRV_ERROR_NONE) return kHcclSuccess;
    return report(kHcclNoMemory, "EL0004: device %d: no memory for %llu bytes", device,
                  static_cast<unsigned long long>(bytes));
}

EXPORTED int HcommMemFree(void* pointer) {
    if (halMemFree(pointer) == DRV_ERROR_NONE) return virtual_npu::kHcclSuccess;
    return virtual_npu::report(virtual_npu::kHcclInvalidParameter, "EI0003: HcommMemFree: %p is not a block in use",
                               pointer);
}
