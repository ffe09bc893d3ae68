// The real function behind a hook, as the hook itself gets it.
#pragma once

#include "interpose/patcher.h"
#include "writer/keep_errno.h"

namespace msmemscope {

// next: what the patcher left there, or null as long as every slot was still a lazy one. library: the one that has the
// function. Null if that is not loaded.
template <typename Function>
Function* real_function(Function*& next, const char* library, const char* function) noexcept {
    Function* real = __atomic_load_n(&next, __ATOMIC_ACQUIRE);
    if (__builtin_expect(real == nullptr, 0)) {
        const KeepErrno keep_errno;
        real = reinterpret_cast<Function*>(find_real_function(library, function));
        if (real != nullptr) {
            __atomic_store_n(&next, real, __ATOMIC_RELEASE);
        }
    }
    return real;
}

}  // namespace msmemscope
