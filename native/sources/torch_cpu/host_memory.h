// What the kernel says of the machine's memory and of this process.
#pragma once

#include "core/writer/device_support.h"
#include "sources/memory_usage.h"

namespace msmemscope::torch_cpu {

// The host as a device: the process itself is its pool, of which CPU tensors are in use.
extern const DeviceSupport kHostSupport;

// Writes DEVICE_USAGE of the host if what this process has in memory has changed.
void record_host_usage(const RecordPlace& place = {}) noexcept;

}  // namespace msmemscope::torch_cpu
