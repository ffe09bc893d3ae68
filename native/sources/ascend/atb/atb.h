// Observer atb: operators and kernels of Ascend Transformer Boost, and the tensors that they touch.
//
// ATB has no interface for tools, but it has a place for them: before and after each kernel it asks atb::Probe whether
// tensors are to be saved, and hands the launch parameters to atb::StoreUtil. While kernels are collected the questions
// are answered with yes, and what would copy tensors to disk records them instead. atb::Runner::Execute is one
// operator. All of them are exported C++ functions that libatb.so calls through its table, under names that depend on
// the layout of std::string it was compiled with. The original is always called where the answer is not ours.
#pragma once

#include <cstdint>

#include "interpose/hook.h"

namespace msmemscope::atb {

extern const HookTable kHooks;

}  // namespace msmemscope::atb
