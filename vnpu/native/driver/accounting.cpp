#include "accounting.h"

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "driver.h"
#include "settings.h"

namespace virtual_npu {
namespace {

constexpr uint32_t kModules = 256;  // the module number has eight bits

struct ModuleBytes {
    uint64_t current;
    uint64_t peak;
};

struct Device {
    uint64_t used;
    ModuleBytes modules[kModules];
};

std::mutex guard;
Device devices[kMostDevices];
uint64_t allocations = 0;  // of all devices, for the fault that counts them

}  // namespace

bool take_memory(uint32_t device, uint32_t module, uint64_t bytes) {
    const Settings& chosen = settings();
    if (device >= chosen.devices) return false;
    const std::lock_guard<std::mutex> lock(guard);
    if (++allocations == chosen.faults.fail_allocation) {
        std::fprintf(stderr, "[vnpu] injected fault: driver allocation %llu (%llu bytes on device %u) fails\n",
                     static_cast<unsigned long long>(allocations), static_cast<unsigned long long>(bytes), device);
        return false;
    }
    Device& state = devices[device];
    const uint64_t available = std::min(chosen.memory_bytes, chosen.faults.memory_limit);
    if (bytes > available || state.used > available - bytes) return false;
    state.used += bytes;
    ModuleBytes& held = state.modules[module % kModules];
    held.current += bytes;
    held.peak = std::max(held.peak, held.current);
    return true;
}

void give_memory_back(uint32_t device, uint32_t module, uint64_t bytes) {
    const std::lock_guard<std::mutex> lock(guard);
    devices[device].used -= bytes;
    devices[device].modules[module % kModules].current -= bytes;
}

}  // namespace virtual_npu

extern "C" __attribute__((visibility("default"))) void virtual_npu_device_memory(uint32_t device, size_t* free_bytes,
                                                                                 size_t* total_bytes) {
    using namespace virtual_npu;
    const std::lock_guard<std::mutex> lock(guard);
    const uint64_t total = settings().memory_bytes;
    *total_bytes = total;
    *free_bytes = device < kMostDevices && devices[device].used < total ? total - devices[device].used : 0;
}

extern "C" __attribute__((visibility("default"))) void virtual_npu_module_memory(uint32_t device, uint32_t module,
                                                                                 uint64_t* current, uint64_t* peak) {
    using namespace virtual_npu;
    const std::lock_guard<std::mutex> lock(guard);
    const bool known = device < kMostDevices && module < kModules;
    *current = known ? devices[device].modules[module].current : 0;
    *peak = known ? devices[device].modules[module].peak : 0;
}
