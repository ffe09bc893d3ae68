// The memory of the device that a communicator takes, as the real library does: one buffer for what goes in and one
// for what comes out, of HCCL_BUFFSIZE each. Nothing is kept in them here; a framework's view of the device's memory
// would be wrong without them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace virtual_npu {

class DeviceBuffers {
public:
    // Of the device that the calling thread uses. With a name, all communicators of this process and device that have
    // named the same buffer share it. Null, with the reason, if the device has not that much memory.
    static std::shared_ptr<DeviceBuffers> take(uint64_t bytes_each, const std::string& name, std::string* reason);
    ~DeviceBuffers();
    DeviceBuffers(const DeviceBuffers&) = delete;
    DeviceBuffers& operator=(const DeviceBuffers&) = delete;

private:
    DeviceBuffers() = default;
    void* buffers_[2] = {nullptr, nullptr};
};

}  // namespace virtual_npu
