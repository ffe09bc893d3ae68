// Observer kernel_launch: which kernels are launched, on which stream, and when the device ran them.
//
// A launch function is called with a handle and not with a name. The name comes from the runtime's own reports to
// profilers, made during the call. So the events are made there (kernel_reports.h). The wrappers here do two things
// only. They note when a launch began. Before the first launch they open the device's log of tasks (task_channel.h).
//
// Arguments are passed on as they are, because the structures behind them differ from version to version of CANN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/hook.h"

namespace msmemscope::kernel_launch {

extern const HookTable kHooks;

// When the launch that the calling thread is in began; 0 outside of one, and in one that is not recorded.
std::uint64_t launch_began_ns() noexcept;

// The runtime has reported which kernel the launch that the calling thread is in was of.
void note_launched_kernel(std::uint64_t kernel_name, format::Device device) noexcept;

// The device goes: what it logged is read, and the log closed. The next launch opens it again.
void finish() noexcept;

}  // namespace msmemscope::kernel_launch
