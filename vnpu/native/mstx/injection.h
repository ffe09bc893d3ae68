// The mstx injection protocol: how a tool gets to see marks, ranges and the memory of pools.
//
// At the first call of any function the tool is looked for: in the library that MSTX_INJECTION_PATH names, else among
// what is loaded already (a preloaded library). Its InitInjectionMstx gets a function that hands out one table per
// module; the tool writes its own functions into the slots of a table. A slot that stays empty is a call that does
// nothing. Every library that contains this code is a context of its own, so a tool's InitInjectionMstx is called once
// for each of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace virtual_npu::mstx {

using Function = void (*)();

enum Module : int { kCore = 1, kDomain = 2, kMemory = 3 };

enum CoreFunction : unsigned { kMark = 1, kRangeStart, kRangeEnd, kGetToolId, kCoreFunctions };
enum DomainFunction : unsigned {
    kDomainCreate = 1,
    kDomainDestroy,
    kDomainMark,
    kDomainRangeStart,
    kDomainRangeEnd,
    kDomainFunctions
};
enum MemoryFunction : unsigned {
    kHeapRegister = 1,
    kHeapUnregister,
    kRegionsRegister,
    kRegionsUnregister,
    kPermissionsAssign,
    kMemoryFunctions
};

// What the tool put into a slot, null if nothing. Initialises at the first call; other threads wait for that.
Function injected(Module module, unsigned function);

// Calls what the tool put into a slot; without a tool a value of zero is returned.
template <typename Result, typename... Arguments>
Result call(Module module, unsigned function, Arguments... arguments) {
    const auto target = reinterpret_cast<Result (*)(Arguments...)>(injected(module, function));
    return target == nullptr ? Result() : target(arguments...);
}

}  // namespace virtual_npu::mstx
