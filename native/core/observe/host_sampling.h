// When host memory is sampled; how, is in host_samples.h.
#pragma once

namespace msmemscope::recorder {

#pragma GCC visibility push(default)

// Takes samples from now on, if the settings want them, where allocations are collected.
void begin_host_samples() noexcept;
// The program ends: what is freed from here on is freed because of that, and is not recorded.
void end_host_samples() noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::recorder
