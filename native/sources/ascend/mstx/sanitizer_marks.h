// Marks of libraries for the sanitizer of torch_npu. They tell what an operator reads and writes:
//   sanitizer-op: name=OPERATOR;read=ALIAS:ADDRESS:SIZE,...;write=ALIAS:ADDRESS:SIZE,...
#pragma once

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope::mstx {

inline constexpr const char* kSanitizerPrefix = "sanitizer-op:";

// Whether such marks are wanted; until they are, they are nothing.
bool takes_sanitizer_marks() noexcept;

// Records the operator of a mark, with what it accesses. device: as events have it. text: what stands behind the
// prefix. Nothing is recorded of an operator without a name; an access that cannot be read is left out.
void record_sanitizer_mark(const RecordingScope& scope, const char* text, format::Device device) noexcept;

}  // namespace msmemscope::mstx
