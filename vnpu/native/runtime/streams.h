// What a stream's handle points at; the null handle is the default stream of the current device, number 0.
#pragma once

#include <atomic>
#include <cstdint>

namespace virtual_npu {

constexpr uint64_t kStreamMark = 0x73747265616d2121;

struct Stream {
    std::atomic<uint64_t> mark;  // 0 once it is destroyed; the memory is only used for other streams
    int32_t number;
    uint32_t device;              // the driver's number
    std::atomic<uint32_t> tasks;  // launched on it so far
};

inline bool is_stream(const void* handle) {
    return handle == nullptr || static_cast<const Stream*>(handle)->mark == kStreamMark;
}

}  // namespace virtual_npu
