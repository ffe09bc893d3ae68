// Marks and ranges: what a program says about its own course, through mstx or NVTX. A range whose message is
// "step start" is a step.
#pragma once

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope::program_marks {

// Says where a mark belongs: sets the device and the attributes of its event. False if the device is not observed.
using PlaceEvent = bool (*)(const RecordingScope& scope, void* stream, Event& event);

// message: null if it has none. stream: of the runtime, may be null.
void mark(const char* message, void* stream, PlaceEvent place) noexcept;
// Returns the range's number, counted from 1 over all threads; 0 where nothing is configured.
std::uint64_t begin_range(const char* message, void* stream, PlaceEvent place) noexcept;
// Of the number 0: nothing.
void end_range(std::uint64_t range, PlaceEvent place) noexcept;

}  // namespace msmemscope::program_marks
