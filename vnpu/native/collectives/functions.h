// The collectives by number, for their signatures in shared memory.
#pragma once

#include <cstdint>

namespace virtual_npu {

enum class Function : uint32_t {
    kBarrier,
    kAllReduce,
    kReduce,
    kBroadcast,
    kAllGather,
    kAllGatherV,
    kReduceScatter,
    kReduceScatterV,
    kScatter,
    kAllToAll,
    kAllToAllV,
    kAllToAllVC,
};

// Of shared memory, so any number may come.
inline const char* function_name(Function function) {
    constexpr const char* kNames[] = {"HcclBarrier",   "HcclAllReduce",  "HcclReduce",        "HcclBroadcast",
                                      "HcclAllGather", "HcclAllGatherV", "HcclReduceScatter", "HcclReduceScatterV",
                                      "HcclScatter",   "HcclAlltoAll",   "HcclAlltoAllV",     "HcclAlltoAllVC"};
    const auto number = static_cast<uint32_t>(function);
    return number < sizeof kNames / sizeof kNames[0] ? kNames[number] : "an unknown function";
}

}  // namespace virtual_npu
