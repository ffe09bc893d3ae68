// Observer hal: every block that the driver gives out, and host memory that is registered with the runtime.
//
// Device memory of all users ends in halMemAlloc or halMemCreate of libascend_hal.so, which the runtime calls through
// its GOT; so does pinned host memory. Physical memory (halMemCreate) has no address of its own: the handle stands for
// it, and where it is mapped is recorded beside it. Device numbers are the driver's: ASCEND_RT_VISIBLE_DEVICES has been
// applied above it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/hook.h"
#include "sources/ascend/hal/allocation_flags.h"

namespace msmemscope::hal {

extern const HookTable kHooks;

}  // namespace msmemscope::hal
