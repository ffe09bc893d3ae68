// Every hook of every observer, in one table.
#pragma once

#include "interpose/patcher.h"
#include "observers/torch_cpu/torch_cpu.h"

namespace msmemscope {

inline constexpr const char* kTorchCpu = "torch_cpu";

inline const Hook kHooks[] = {
    {"libc10.so", "posix_memalign", reinterpret_cast<void*>(&torch_cpu::hooked_posix_memalign),
     reinterpret_cast<void**>(&torch_cpu::next_posix_memalign), kTorchCpu, true},
    {"libc10.so", "free", reinterpret_cast<void*>(&torch_cpu::hooked_free),
     reinterpret_cast<void**>(&torch_cpu::next_free), kTorchCpu, true},
};

}  // namespace msmemscope
