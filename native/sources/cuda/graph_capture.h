// Whether a stream of the process is being captured into a graph. Until it is not any more, nobody may wait for the
// device or copy from it on a stream of the default kind: the runtime would end the capture with an error.
#pragma once

#include "interpose/hook.h"

namespace msmemscope::cuda {

bool is_capturing() noexcept;

extern const HookTable kGraphCaptureHooks;

}  // namespace msmemscope::cuda
