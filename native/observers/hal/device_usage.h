// How much of a device is in use, by everybody and by this process: what the management interface (DCMI) says.
//
// The pools' own figures do not need it: where libdcmi.so is missing, these two are left out and the capture says so.
#pragma once

namespace msmemscope::hal {

// Asks about a device and writes DEVICE_USAGE if the figures have changed. Loads DCMI at the first call. To be called
// outside of any scope, right behind the driver's call.
void record_device_usage(unsigned device) noexcept;

// The same for the host: what this process has in memory.
void record_host_usage() noexcept;

}  // namespace msmemscope::hal
