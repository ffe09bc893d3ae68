// CUDA devices: numbers of the runtime as devices of events, and functions of its libraries that the program has
// loaded.
#pragma once

#include "core/writer/recorder.h"

namespace msmemscope::cuda {

constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY

// The device that a number of the runtime means: CUDA_VISIBLE_DEVICES="4,5" makes device 0 of a program device 4. Where
// the variable lists names, numbers stay as they are.
__attribute__((visibility("default"))) format::Device device_of_runtime(int number) noexcept;

// The runtime's number of the calling thread's device, -1 if it is not known. Does not begin to use a device.
int current_device() noexcept;

}  // namespace msmemscope::cuda
