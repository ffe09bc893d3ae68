// Every hook of every observer: each observer has a table, and they are listed here.
#pragma once

#include "interpose/hook.h"
#include "sources/ascend/acl/acl.h"
#include "sources/ascend/atb/atb.h"
#include "sources/ascend/hal/hal.h"
#include "sources/ascend/kernel_launch/kernel_launch.h"
#include "sources/ascend/mstx/mstx.h"
#include "sources/torch_cpu/torch_cpu.h"

namespace msmemscope {

inline constexpr const HookTable* kHookTables[] = {
    &torch_cpu::kHooks, &hal::kHooks, &acl::kHooks, &atb::kHooks, &kernel_launch::kHooks, &mstx::kHooks,
};

}  // namespace msmemscope
