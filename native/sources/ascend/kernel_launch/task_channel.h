// The device's log of tasks (STARS): opened before the first launch on a device, read by a thread of ours.
#pragma once

namespace msmemscope::kernel_launch {

// Opens the log of a device if that was not done before in this process. If something is missing, a fact of the capture
// says what. device: the driver's number.
void open_task_channel(int device) noexcept;

// Reads what is there, closes the logs and ends the reading thread. A later launch opens them again.
void close_task_channels() noexcept;

}  // namespace msmemscope::kernel_launch
