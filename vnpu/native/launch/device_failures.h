// Devices on which a task has failed. Hardware stops at the first failure: nothing that is put on the device afterwards
// runs, and whatever would wait for a result returns the error, until the device is reset. Without this a program that
// catches the first error would go on with memory that was never computed.
#pragma once

#include <cstdint>

extern "C" {

// Not of the real runtime. Devices are numbered as the driver numbers them; a number that is no device has no failure.

// A task has failed while it ran. The device fails with it, unless ASCEND_LAUNCH_BLOCKING is on: then the caller has
// the error at the call itself, nothing was put on the device after it, and the process stays usable.
void virtual_npu_task_failed(int32_t device, const char* text);

// The same of a task that ran after its call had returned: nobody has the error, and the device fails in any case.
void virtual_npu_later_task_failed(int32_t device, const char* text);

// A call was refused before anything ran. The caller has the error, and nothing else happens; but on the thread of
// torch_npu's task queue the caller is the queue, which drops everything that comes after, so there the device fails.
void virtual_npu_call_refused(int32_t device, const char* text);

// The text of the first failure of a device, null if it has not failed. The text stays valid.
const char* virtual_npu_device_failure(int32_t device);

// What aclrtResetDevice does.
void virtual_npu_forget_failure(int32_t device);

}  // extern "C"
