// Observer torch_cpu: every CPU tensor block of PyTorch.
//
// libc10.so gets the memory of CPU tensors from posix_memalign and gives it back through free. It calls both through
// its GOT (seen with torch 2.3 to 2.13). By redirecting the two for that one library, we see every block and nothing of
// the rest of the process. Memory that PyTorch does not allocate does not pass here:
// - NumPy arrays;
// - shared memory of DataLoader workers;
// - files mapped by torch.load.
#pragma once

#include <cstddef>

#include "interpose/hook.h"

namespace msmemscope::torch_cpu {

extern const HookTable kHooks;

}  // namespace msmemscope::torch_cpu
