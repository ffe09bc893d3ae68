// Observer mstx: marks, ranges, steps, and the memory pools of torch_npu, MindSpore and ATB.
//
// Every library that contains mstx's header looks for InitInjectionMstx at its first call, and lets us fill its
// function pointers. It finds ours in the global scope. The preload or make_findable() has put it there.
//
// torch_npu and MindSpore report their pools only if LD_PRELOAD names a file libascend_kernel_hook.so. They ask once,
// at their first allocation. Their getenv is answered as if it did, and the environment stays as it is.
#pragma once

#include <cstdint>

#include "interpose/hook.h"
#include "sources/ascend/mstx/protocol.h"

extern "C" __attribute__((visibility("default"))) int InitInjectionMstx(  // NOLINT(readability-identifier-naming)
    msmemscope::mstx::TableGetter getter);

namespace msmemscope::mstx {

#pragma GCC visibility push(default)

// Puts this library into the global scope, where it is not if it came with the Python extension.
void make_findable() noexcept;

// Marks and ranges that Python makes itself, in the way of mstx (marks.h). stream: a stream's address, or 0.
void mark_from_python(const char* message, std::uint64_t stream) noexcept;
std::uint64_t range_start_from_python(const char* message, std::uint64_t stream) noexcept;
void range_end_from_python(std::uint64_t range) noexcept;
// From now on marks for torch_npu's sanitizer are operators (sanitizer_marks.h).
void take_sanitizer_marks() noexcept;
// How many marks and ranges this thread has made through mstx so far.
std::uint64_t calls_of_this_thread() noexcept;

#pragma GCC visibility pop

extern const HookTable kHooks;

}  // namespace msmemscope::mstx
