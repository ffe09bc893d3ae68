// Devices and contexts. A context belongs to a device; each thread has a current one, or none until it sets a device.
#pragma once

#include <cstdint>

namespace virtual_npu {

struct Context {
    uint32_t device;
};

// Null on a thread that has set no device.
Context* current_context();

// The device of the current context; -1 without one, and then the error text is set.
int current_device();

}  // namespace virtual_npu
