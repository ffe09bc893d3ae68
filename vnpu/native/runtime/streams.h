// What a stream's handle points at; the null handle is the default stream of the current device, number 0.
#pragma once

#include <atomic>
#include <cstdint>

namespace virtual_npu {

struct Stream {
    int32_t number;
    uint32_t device;              // the driver's number
    std::atomic<uint32_t> tasks;  // launched on it so far
};

}  // namespace virtual_npu
