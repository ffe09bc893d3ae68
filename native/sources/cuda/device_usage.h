// What CUDA devices and this process use of their memory, by NVML (libnvidia-ml.so.1, which comes with the driver).
//
// A device is one of NVML by its address on the bus: both number devices in orders of their own.
#pragma once

#include "core/writer/device_support.h"
#include "sources/memory_usage.h"

namespace msmemscope::cuda {

// Writes what is in use on a device, if that has changed. number: as the runtime has it. Outside of any scope.
void record_device_usage(int number, format::Device device, const RecordPlace& place = {}) noexcept;

// The same, for a device that was named by its number before; other devices are passed over.
void record_usage_of(format::Device device, const RecordPlace& place) noexcept;

// The same, however long the last question took: an allocation has failed, and its cause depends on these figures.
void record_usage_now(format::Device device) noexcept;

// Writes the figures of devices that had some before.
void record_usage_again(const RecordingScope& scope) noexcept;

// Loads NVML if that was not done before. Outside of any scope.
void prepare_device_memory() noexcept;

// Memory of a device that was named by its number before; false if nobody can tell.
bool device_memory(const RecordingScope& scope, format::Device device, MemoryBytes& memory) noexcept;

}  // namespace msmemscope::cuda
