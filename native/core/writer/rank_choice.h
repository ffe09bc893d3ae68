// Whether a process is observed, where some ranks were chosen: the settings `ranks` and `sample_ranks`.
#pragma once

namespace msmemscope::recorder {

// Whether a process runs unobserved. A process without a rank in its environment is observed. This is decided before
// anything of ours begins. It allocates nothing, and the C library need not have set up environ.
//
// The settings are explained in src/msmemscope/bootstrap/rank_choice.py, which decides the same for Python.
__attribute__((visibility("default"))) bool is_left_out(const char* settings_text, char** environment) noexcept;

}  // namespace msmemscope::recorder
