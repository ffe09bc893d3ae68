// Figures of the host memory of the process: how much is resident, and what the kernel and the C library know of it.
#pragma once

#include <cstdint>

#include "core/writer/append.h"
#include "core/writer/process_state.h"

namespace msmemscope::host_figures {

// Moments of figures: a framework begins to be imported, it is imported, and the program ends.
inline constexpr const char* kImport = "import";
inline constexpr const char* kImported = "imported";
inline constexpr const char* kEnd = "end";

bool is_forked(const ProcessState& state) noexcept;

// Says when the kernel is asked again for what the process does not share. begin: when it was asked.
void set_next_own_figure(ProcessState& state, std::uint64_t begin) noexcept;

// moment: the moment in the life of the program, one of those above; null for any.
void write_figure(const RecordingScope& scope, ProcessState& state, const char* moment) noexcept;

}  // namespace msmemscope::host_figures
