// How much of a device is in use, by everybody and by this process: what the management interface (DCMI) says.
//
// The pools' own figures do not need it: where libdcmi.so is missing, these two are left out and the capture says so.
#pragma once

#include <cstdint>

#include "core/writer/device_support.h"
#include "core/writer/recorder.h"
#include "sources/memory_usage.h"

namespace msmemscope::hal {

// Asks about a device and writes DEVICE_USAGE if the figures have changed. Loads DCMI at the first call. To be called
// outside of any scope, right behind the driver's call.
void record_device_usage(unsigned device, const RecordPlace& place = {}) noexcept;

// Writes the current figures of all devices whose figures were written before.
void record_usage_again(const RecordingScope& scope) noexcept;

// Loads DCMI if that was not done yet. To be called outside of any scope.
void prepare_device_memory() noexcept;

// The memory of a device as DCMI counts it, in whole MiB. False if it is not prepared or does not know the device. Does
// not begin to use the device.
bool device_memory(const RecordingScope& scope, unsigned device, MemoryBytes& memory) noexcept;

// The same from outside of any scope, DCMI being loaded if need be.
__attribute__((visibility("default"))) bool ask_device_memory(unsigned device, MemoryBytes& memory) noexcept;

}  // namespace msmemscope::hal
