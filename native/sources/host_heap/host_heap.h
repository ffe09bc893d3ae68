// Observer host_heap: the host memory of the process besides tensors, as a sample (observe/host_samples.h).
//
// The calls of all libraries and of the program are redirected. So are functions that a program looks up by such a
// name. Two kinds of calls are left alone: those of libc10.so, which are CPU tensors (torch_cpu), and our own.
//
// Small Python objects lie in arenas that the interpreter maps, of 1 MiB (256 KiB before 3.10). The stack at the moment
// of such a mapping is a sample of what grows there. So the allocator of these objects is left as it is. Memory that is
// only reserved, or a thread's stack, does not count.
#pragma once

#include "interpose/hook.h"

namespace msmemscope::host_heap {

extern const HookTable kHooks;

}  // namespace msmemscope::host_heap
