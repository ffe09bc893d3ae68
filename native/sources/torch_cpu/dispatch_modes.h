// Answers that torch's own C++ code gets about dispatch modes, so that it does what it does without the tool.
//
// While a dispatch mode is active, torch takes every tensor for one that may be of a subclass. See isTensorSubclassLike
// in ATen/TensorSubclassLikeUtils.h. Then gradients are summed into fresh memory and not in place, `max_pool1d` saves
// indices, and `reshape` and `linear` take other ways.
//
// Our mode changes no tensor. If it is the only mode of a thread, the libraries that decide by this are told that there
// is none. Python's side of torch is told the truth, or operators would not come to the mode.
#pragma once

#include "interpose/hook.h"

namespace msmemscope::dispatch_modes {

extern const HookTable kHooks;

#pragma GCC visibility push(default)

// Answers whether the only mode of the calling thread is ours. Called by any thread, without the GIL, while a mode is
// active; never null.
using OursIsAlone = bool (*)();
void set_ours_is_alone(OursIsAlone answer) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::dispatch_modes
