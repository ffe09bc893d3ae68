// The driver's memory interface (libascend_hal.so). Above it stands the runtime, which calls these functions through
// the procedure linkage table as the real one does: a tool that interposes halMemAlloc sees every allocation. For the
// same reason each has a twin with "Inner" behind its name, which such a tool calls to get the work done.
//
// Facts about the real interface (bits of the flag, layout of drv_mem_prop, codes) are those of the public driver
// headers; struct drv_mem_handle is opaque.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using drvError_t = int;
constexpr drvError_t DRV_ERROR_NONE = 0;
constexpr drvError_t DRV_ERROR_INVALID_VALUE = 3;
constexpr drvError_t DRV_ERROR_OUT_OF_MEMORY = 6;

struct drv_mem_handle_t;
struct drv_mem_prop {
    uint32_t side;  // 0 host, 1 device
    uint32_t devid;
    uint32_t module_id;
    uint32_t pg_type;   // 0 normal, 1 huge, 2 giant
    uint32_t mem_type;  // 0 HBM
    uint64_t reserve;
};

drvError_t halMemAlloc(void** pointer, unsigned long long size, unsigned long long flag);
drvError_t halMemFree(void* pointer);
drvError_t halMemCreate(drv_mem_handle_t** handle, size_t size, const drv_mem_prop* properties, uint64_t flag);
drvError_t halMemRelease(drv_mem_handle_t* handle);
drvError_t halMemAddressReserve(void** pointer, size_t size, size_t alignment, void* hint, uint64_t flag);
drvError_t halMemAddressFree(void* pointer);
drvError_t halMemMap(void* pointer, size_t size, size_t offset, drv_mem_handle_t* handle, uint64_t flag);
drvError_t halMemUnmap(void* pointer);

// Not of the real driver: what the emulated runtime asks of the emulated driver.
void virtual_npu_device_memory(uint32_t device, size_t* free_bytes, size_t* total_bytes);
// Bytes that one of the driver's modules holds on a device now, and the most it ever held.
void virtual_npu_module_memory(uint32_t device, uint32_t module, uint64_t* current, uint64_t* peak);
// A number with which another process of this machine can import the physical memory; 0 if that is not possible.
uint64_t virtual_npu_export_memory(drv_mem_handle_t* handle);
drvError_t virtual_npu_import_memory(uint64_t shareable, uint32_t device, drv_mem_handle_t** handle);

}  // extern "C"

namespace virtual_npu {

// The flag of halMemAlloc.
constexpr unsigned long long kFlagDeviceMask = 0x3ff;  // bits 0 to 9
constexpr unsigned kFlagKindShift = 10;                // bits 10 to 13
constexpr unsigned long long kFlagKindMask = 0xf;
constexpr unsigned long long kKindDevice = 1;
constexpr unsigned long long kKindHost = 2;
constexpr unsigned long long kFlagHighBandwidth = 1ull << 14;
constexpr unsigned long long kFlagHugePage = 1ull << 17;
constexpr unsigned kFlagModuleShift = 56;  // bits 56 to 63

}  // namespace virtual_npu
