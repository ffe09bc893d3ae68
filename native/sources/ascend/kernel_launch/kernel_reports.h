// The runtime's reports to profilers. They tell the names of kernels, and the stream and the task that each kernel
// becomes.
#pragma once

#include <cstdint>

#include "sources/ascend/kernel_launch/pending_tasks.h"
#include "sources/ascend/kernel_launch/task_records.h"

namespace msmemscope::kernel_launch {

// Whether kernel launches are to be recorded, and whether they are now.
bool is_wanted() noexcept;
bool is_collected() noexcept;

// Takes the place of whatever profiler listened before; once per process. False if the interface is not loaded.
bool register_callbacks() noexcept;

// The tasks that were launched and have not ended, and the form in which the device's log tells of them.
PendingTasks& pending_tasks() noexcept;
bool streams_are_expanded() noexcept;
LogFormat log_format() noexcept;

}  // namespace msmemscope::kernel_launch
