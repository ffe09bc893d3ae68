// Which step runs, and whether it is one that was asked for (setting "steps").
//
// Steps come from one of two sources, whichever is used first:
// - msmemscope.step() ends one step and begins the next, so the first began with the program;
// - mstx ranges with the message "step start". Between two ranges there is no step.
//
// The other source is ignored, with one line. Until the first of the two comes, step 1 runs. If a range comes first,
// that was wrong, and the events recorded so far are taken back.
//
// If the program uses neither, IMPLIED_STEP events say where steps seem to end. Then "steps" chooses among these. If it
// chooses the first, the second is recorded, too: the program may still say that the first goes on.
#pragma once

#include <cstdint>

#include "core/format/record.h"

namespace msmemscope {

#pragma GCC visibility push(default)
// All of them to be called outside of any scope.
namespace steps {

// Called by start() if collection is on already, because it began with the program. Step 1 of msmemscope.step() begins
// here. Of earlier blocks only those that are still alive count, as existing.
void begin_first_step() noexcept;

// Begins or ends the extent of start() and stop(). Within it, events are collected while a chosen step runs, or always
// if none was chosen.
void begin_tracing() noexcept;
void end_tracing() noexcept;

// Ends a step and begins the next: writes a STEP event. Returns the number of the step that ended; 0 if mstx ranges
// are the source.
std::uint32_t end_step(format::Device device) noexcept;

// A range that is a step, unless nothing is traced. Ranges may nest and overlap; their numbers count up over all
// threads.
void begin_range(std::uint64_t range) noexcept;
// Other ranges are passed over.
void end_range(std::uint64_t range) noexcept;

// Whether steps were chosen, and nothing says yet what the steps are. Then the records of now may be taken back.
bool are_undecided() noexcept;

// The source of an implied step, if the program itself says nothing of steps. An optimizer's step counts before a
// module's forward.
enum class ImpliedSource : std::uint32_t { kNone, kModule, kOptimizer };

// Ends an implied step and begins the next: writes an IMPLIED_STEP event. Returns false if steps of this source are not
// wanted. Either the program tells of steps itself, or an optimizer implies them instead of a module. Such an answer
// stays.
bool imply_step(ImpliedSource source, format::Device device) noexcept;

// Whether ranges "step start" are this program's steps.
bool are_ranges() noexcept;

// Where steps were chosen: notes how many have begun and ended, as facts.
void note_extent() noexcept;

}  // namespace steps
#pragma GCC visibility pop

// Tracing began with the settings: nothing was alive before.
void note_immediate_tracing() noexcept;

}  // namespace msmemscope
