// Kernels that are given to streams of CUDA devices (--level=kernel): the name of each, its stream, and when that was.
// The times of the device are not known.
//
// PyTorch launches through the runtime (cudaLaunchKernel; __cudaLaunchKernel since CUDA 13; cudaLaunchKernelExC),
// Triton and programs compiled at run time through the driver (cuLaunchKernel, cuLaunchKernelEx).
#pragma once

#include "interpose/hook.h"

namespace msmemscope::cuda {

extern const HookTable kKernelHooks;

}  // namespace msmemscope::cuda
