// Figures of the host memory of the process: how much is resident, and what the kernel and the C library know of it.
#pragma once

#include <cstdint>

#include "core/writer/append.h"
#include "core/writer/process_state.h"

namespace msmemscope::host_figures {

// Moments of figures: any; the program's own work begins; a framework begins to be imported, it is imported; the
// control group comes near to its limit; the program ends.
enum class Moment : std::uint8_t { kAny, kBegin, kImport, kImported, kNearLimit, kEnd };

// Whether the C library may be asked for its free memory, which takes the locks of its arenas. A handler of a signal
// may map memory while its thread holds one of them.
enum class Heap : bool { kMayBeLocked, kIsFree };

bool is_forked(const ProcessState& state) noexcept;

// Says when the kernel is asked again for what the process does not share. begin: when it was asked.
void set_next_own_figure(ProcessState& state, std::uint64_t begin) noexcept;

// The program's own work has not begun yet.
void forget_begin(ProcessState& state) noexcept;
// To be called where a process without a log allocates. The first time behind the last import of a module, the figure
// of that moment is noted. It takes about 30 us.
void note_begin(ProcessState& state, Heap heap) noexcept;
// The process gets a log after all: writes that figure, with its own time, if it was not written yet.
void write_begin(const RecordingScope& scope, ProcessState& state) noexcept;

void write_figure(const RecordingScope& scope, ProcessState& state, Moment moment, Heap heap) noexcept;

}  // namespace msmemscope::host_figures
