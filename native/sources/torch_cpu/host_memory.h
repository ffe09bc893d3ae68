// The kernel's figures about the machine's memory and about this process.
#pragma once

#include "core/writer/device_support.h"
#include "sources/memory_usage.h"

namespace msmemscope::torch_cpu {

// The host as a device. The process itself is its pool, and CPU tensors are the part in use.
extern const DeviceSupport kHostSupport;

// Writes DEVICE_USAGE of the host if what this process has in memory has changed.
void record_host_usage(const RecordPlace& place = {}) noexcept;

}  // namespace msmemscope::torch_cpu
