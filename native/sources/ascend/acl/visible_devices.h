// Which device a number of the runtime means. Numbers of the driver are not translated; those that come from the
// runtime, and from frameworks above it, are.
#pragma once

namespace msmemscope::acl {

// Reads ASCEND_RT_VISIBLE_DEVICES, as the runtime does when it is initialised or first given a device. The first
// reading holds.
void read_visible_devices() noexcept;

// The driver's number of a device of the runtime, -1 if there is none. Reads the variable if that was not done before.
__attribute__((visibility("default"))) int physical_device(int logical) noexcept;

}  // namespace msmemscope::acl
