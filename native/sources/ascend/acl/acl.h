// Observer acl: when the runtime is initialised and finalised, and which device and stream a thread is on.
#pragma once

#include <cstdint>

#include "interpose/hook.h"

namespace msmemscope::acl {

extern const HookTable kHooks;

// The driver's number of the calling thread's current device; -1 where that cannot be told. Asks the runtime: nothing
// that it does meanwhile is recorded.
int current_device() noexcept;

// The runtime's number of a stream, -1 where that cannot be told.
std::int32_t current_stream_id(void* stream) noexcept;

}  // namespace msmemscope::acl
