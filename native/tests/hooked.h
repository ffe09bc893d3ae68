// Calls a hook as an image does whose slot leads to it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "interpose/hook.h"
#include "sources/torch_cpu/torch_cpu.h"
#include "tests/check.h"

namespace msmemscope::tests {

// The entry of the hook of that name, in front of a function.
template <typename Function>
Function* hooked(const HookTable& table, const char* name, Function* real) {
    for (std::size_t index = 0; index < table.count; ++index) {
        HookEntries& entries = *table.hooks[index].entries;
        if (std::strcmp(table.hooks[index].function, name) == 0) {
            entries.real[0] = reinterpret_cast<void*>(real);
            return reinterpret_cast<Function*>(entries.replacement[0]);
        }
    }
    CHECK(!"a hook of that name");
    return nullptr;
}

// As libc10.so calls them.
inline const auto hooked_posix_memalign = hooked(torch_cpu::kHooks, "posix_memalign", &::posix_memalign);
inline const auto hooked_free = hooked(torch_cpu::kHooks, "free", &::free);

}  // namespace msmemscope::tests
