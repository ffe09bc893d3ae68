// Observer host_heap: what the process takes of the host's memory besides tensors, as a sample
// (observe/host_samples.h).
//
// The calls of all libraries and of the program are redirected, and what a program finds by the name of such a
// function. Not those of libc10.so, which are CPU tensors (torch_cpu), nor our own. Small Python objects lie in arenas
// that the interpreter maps, of 1 MiB (256 KiB before 3.10): the stack at the moment of such a mapping is a sample of
// what grows there, so its allocator is left as it is. Memory that is only reserved, shared, or a thread's stack is
// none that counts.
#pragma once

#include "interpose/hook.h"

namespace msmemscope::host_heap {

extern const HookTable kHooks;

}  // namespace msmemscope::host_heap
