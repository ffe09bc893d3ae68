// Every hook of every observer: each observer has a table, and they are listed here.
#pragma once

#include "interpose/hook.h"
#include "observers/acl/acl.h"
#include "observers/atb/atb.h"
#include "observers/hal/hal.h"
#include "observers/kernel_launch/kernel_launch.h"
#include "observers/mstx/mstx.h"
#include "observers/torch_cpu/torch_cpu.h"

namespace msmemscope {

inline constexpr const HookTable* kHookTables[] = {
    &torch_cpu::kHooks, &hal::kHooks, &acl::kHooks, &atb::kHooks, &kernel_launch::kHooks, &mstx::kHooks,
};

}  // namespace msmemscope
