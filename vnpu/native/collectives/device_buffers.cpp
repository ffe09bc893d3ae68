#include "device_buffers.h"

#include <map>
#include <mutex>
#include <utility>

#include "driver.h"
#include "interface.h"
#include "settings.h"

extern "C" int aclrtGetDevice(int32_t* device);

namespace virtual_npu {
namespace {

std::mutex guard;
std::map<std::pair<int32_t, std::string>, std::weak_ptr<DeviceBuffers>>& named_buffers() {
    static auto* table = new std::map<std::pair<int32_t, std::string>, std::weak_ptr<DeviceBuffers>>();
    return *table;
}

}  // namespace

std::shared_ptr<DeviceBuffers> DeviceBuffers::take(uint64_t bytes_each, const std::string& name, std::string* reason) {
    int32_t device = 0;
    if (aclrtGetDevice(&device) != 0) {
        *reason = "this thread uses no device";
        return nullptr;
    }
    device = static_cast<int32_t>(visible_devices()[static_cast<size_t>(device)]);  // the driver's number
    const std::lock_guard<std::mutex> lock(guard);
    const std::pair<int32_t, std::string> key(device, name);
    if (!name.empty()) {
        if (std::shared_ptr<DeviceBuffers> shared = named_buffers()[key].lock()) return shared;
    }
    std::shared_ptr<DeviceBuffers> made(new DeviceBuffers());
    const unsigned long long flag = static_cast<unsigned long long>(device) | (kKindDevice << kFlagKindShift) |
                                    kFlagHighBandwidth | kFlagHugePage | (kModuleCollectives << kFlagModuleShift);
    for (void*& buffer : made->buffers_) {
        if (halMemAlloc(&buffer, bytes_each, flag) == DRV_ERROR_NONE) continue;
        buffer = nullptr;
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        virtual_npu_device_memory(static_cast<uint32_t>(device), &free_bytes, &total_bytes);
        *reason = "device " + std::to_string(device) + ": no memory for two buffers of " + std::to_string(bytes_each) +
                  " bytes (HCCL_BUFFSIZE); " + std::to_string(free_bytes) + " of " + std::to_string(total_bytes) +
                  " bytes are free";
        return nullptr;
    }
    if (!name.empty()) named_buffers()[key] = made;
    return made;
}

DeviceBuffers::~DeviceBuffers() {
    for (void* buffer : buffers_) {
        if (buffer != nullptr) halMemFree(buffer);
    }
}

}  // namespace virtual_npu
