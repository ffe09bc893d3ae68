// Observer NVTX: marks and ranges of programs on CUDA devices.
//
// Every library that contains NVTX's header asks for the variable NVTX_INJECTION64_PATH at its first call, loads the
// library that it names, and lets it fill its function pointers. The getenv of PyTorch's libraries is answered with our
// path if the variable is not set. Where it is, another tool gets the marks.
#pragma once

#include "interpose/hook.h"

extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtx2(  // NOLINT(readability-identifier-naming)
    const void* (*get_export_table)(unsigned number));

namespace msmemscope::cuda {

extern const HookTable kNvtxHooks;

}  // namespace msmemscope::cuda
