// Devices and contexts. A context belongs to a device; each thread has a current one, or none until it sets a device.
#pragma once

#include <cstdint>

namespace virtual_npu {

struct Context {
    uint32_t device;
};

// Null on a thread that has set no device.
Context* current_context();

// Null takes the context away.
void set_current_context(Context* context);

// The driver's number of a device of the runtime: ASCEND_RT_VISIBLE_DEVICES says which devices there are, and their
// order. For a number that is no device, one that the driver refuses.
uint32_t driver_device(int64_t device);

// The code and the text for a number that is no device.
int no_such_device(int64_t device);

// The device of the current context; -1 without one, and then the error text is set.
int current_device();

// As virtual_npu_stream_status() (runtime_errors.h), of a device by the driver's number.
int device_status(int32_t driver_device);

}  // namespace virtual_npu
