// When host memory is sampled; how, is in host_samples.h.
#pragma once

namespace msmemscope::recorder {

#pragma GCC visibility push(default)

// Takes samples from now on, if the settings want them, where allocations are collected.
void begin_host_samples() noexcept;
// What the process did so far was not the program's own work: its first figure of host memory is still to come.
void forget_begin_of_program() noexcept;
// From now on samples are taken where there is a log already: a framework is being imported, which most processes do
// nothing with.
void open_no_log_for_host_samples() noexcept;
// The program ends. Blocks that are freed from here on are freed because of that, and no such free is recorded.
void end_host_samples() noexcept;
// Whether Python code of ours runs on this thread: what it allocates is not sampled.
void set_runs_own_code(bool runs) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::recorder
