// Whether a process is observed, where some ranks were chosen: the settings `ranks` and `sample_ranks`.
#pragma once

namespace msmemscope::recorder {

// Whether a process runs unobserved. One without a rank in its environment is observed. Decided before anything of ours
// begins: nothing is allocated, and the C library need not have set up environ.
//
// src/msmemscope/bootstrap/rank_choice.py says what the settings mean, and decides the same for Python.
__attribute__((visibility("default"))) bool is_left_out(const char* settings_text, char** environment) noexcept;

}  // namespace msmemscope::recorder
