// Every hook of every observer: each observer has a table, and they are listed here.
#pragma once

#include <cstddef>

#include "interpose/patcher.h"
#include "observers/acl/acl.h"
#include "observers/atb/atb.h"
#include "observers/hal/hal.h"
#include "observers/kernel_launch/kernel_launch.h"
#include "observers/mstx/mstx.h"
#include "observers/torch_cpu/torch_cpu.h"

namespace msmemscope {

struct HookTable {
    const Hook* hooks;
    std::size_t count;
};

template <std::size_t Count>
constexpr HookTable table_of(const Hook (&hooks)[Count]) {
    static_assert(Count <= 64, "the patcher keeps what came of a table's hooks as bits of one word");
    return {hooks, Count};
}

inline const HookTable kHookTables[] = {
    table_of(torch_cpu::kHooks), table_of(hal::kHooks),           table_of(acl::kHooks),
    table_of(atb::kHooks),       table_of(kernel_launch::kHooks), table_of(mstx::kHooks),
};

}  // namespace msmemscope
