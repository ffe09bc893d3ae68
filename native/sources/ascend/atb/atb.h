// Observer atb: operators and kernels of Ascend Transformer Boost, and the tensors that they touch.
//
// ATB has no interface for tools, but it has a place for them. Before and after each kernel it asks atb::Probe whether
// tensors are to be saved. Then it hands the launch parameters to atb::StoreUtil. While kernels are collected, we
// answer the questions with yes. The function that would copy tensors to disk records them instead. A call of
// atb::Runner::Execute is one operator.
//
// All of them are exported C++ functions, which libatb.so calls through its table. Their names depend on the layout of
// std::string that it was compiled with. The original is always called where the answer is not ours.
#pragma once

#include <cstdint>

#include "interpose/hook.h"

namespace msmemscope::atb {

extern const HookTable kHooks;

}  // namespace msmemscope::atb
