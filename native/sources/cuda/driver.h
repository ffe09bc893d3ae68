// Memory of the CUDA driver, whoever calls it: PyTorch, cuBLAS, NCCL, other libraries, programs in C. Device memory,
// and memory of the host that it pins.
//
// Libraries get functions of the driver in three ways: linked, by dlsym, and from the functions that tell entry points
// (cudaGetDriverEntryPoint, cuGetProcAddress), as libc10_cuda.so does for expandable segments. Memory that the runtime
// takes from the driver for itself does not pass here.
#pragma once

#include "interpose/hook.h"

namespace msmemscope::cuda {

extern const HookTable kDriverHooks;

}  // namespace msmemscope::cuda
