// The C call stack of the calling thread.
#pragma once

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// Returns the id of the stack, beginning with the frame that is returned to at the site, at most `depth`
// frames. Frames are return addresses; symbols are found afterwards, outside the process.
std::uint32_t take_native_stack(const RecordingScope& scope, std::uint32_t depth, const CallSite& site) noexcept;

}  // namespace msmemscope
