// The runtime's reports to profilers: the names of kernels, and which kernel becomes which task of which stream.
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

// What was launched and has not ended, and how the device's log tells it.
PendingTasks& pending_tasks() noexcept;
bool streams_are_expanded() noexcept;
LogFormat log_format() noexcept;

}  // namespace msmemscope::kernel_launch
