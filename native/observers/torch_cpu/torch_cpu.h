// Observer torch_cpu: every CPU tensor block of PyTorch.
//
// libc10.so gets the memory of CPU tensors from posix_memalign and gives it back through
// free, and calls both through its GOT (seen with torch 2.3 to 2.13). Redirecting the two for
// that one library sees every block and nothing of the rest of the process. Memory that
// PyTorch does not allocate (NumPy arrays, shared memory of DataLoader workers, files mapped
// by torch.load) does not pass here.
#pragma once

#include <cstddef>

#include "interpose/patcher.h"

namespace msmemscope::torch_cpu {

int hooked_posix_memalign(void** memory, std::size_t alignment, std::size_t size_bytes);
void hooked_free(void* memory);

// The real functions.
extern int (*next_posix_memalign)(void**, std::size_t, std::size_t);
extern void (*next_free)(void*);

inline const Hook kHooks[] = {
    {"libc10.so", "posix_memalign", reinterpret_cast<void*>(&hooked_posix_memalign),
     reinterpret_cast<void**>(&next_posix_memalign), "torch_cpu", true},
    {"libc10.so", "free", reinterpret_cast<void*>(&hooked_free), reinterpret_cast<void**>(&next_free), "torch_cpu",
     true},
};

}  // namespace msmemscope::torch_cpu
