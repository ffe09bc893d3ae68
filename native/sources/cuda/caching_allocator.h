// Blocks of PyTorch's caching allocator of CUDA devices.
//
// libc10_cuda.so tells the profiler of each block that it hands out or takes back, whether a profiler runs or not. It
// calls c10::reportMemoryUsageToProfiler of libc10.so through its GOT, with its allocator's totals (seen with
// torch 2.11 on CUDA 13). The allocator holds its lock meanwhile: calls come in the order of what they tell.
#pragma once

#include <cstdint>

#include "core/writer/device_support.h"
#include "interpose/hook.h"

namespace msmemscope::cuda {

extern const HookTable kCachingAllocatorHooks;

// The bytes that the allocator holds and has given out on a device; false if it has told nothing yet.
bool pool_of(format::Device device, PoolBytes& bytes) noexcept;

// Writes the bytes that are reserved now.
void record_reserved_again(const RecordingScope& scope) noexcept;

}  // namespace msmemscope::cuda
