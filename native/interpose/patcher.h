// The interposition engine: redirects calls that given libraries make, by writing the
// GOT slots through which they make them.
//
// One mechanism for both ways in. At load time the core is preloaded, and patches what is
// mapped before any of its constructors run; late, it patches what it finds. In both cases
// dlopen is redirected too, in every image, so that libraries loaded afterwards are patched
// before their caller sees them. Observers declare their hooks as a table (hooks.h).
#pragma once

#include <cstddef>

namespace msmemscope {

// One redirected function.
struct Hook {
    // Name of the library whose calls are redirected ("libc10.so"; "libmind*" is every one whose name begins like
    // that); null: every library's and the program's own.
    const char* library;
    const char* function;
    void* replacement;
    // Receives what the slot held, when that was the real function already.
    void** previous;
    // What is observed ("torch_cpu"), for the coverage statement.
    const char* source;
    // Without it the source cannot work; an optional one may be missing.
    bool required;
};

// The real function behind a hook whose slot was not resolved yet when it was patched: to be called from the hook, not
// from a callback of the dynamic linker. library: the one that has it. Null if it is not loaded.
void* find_real_function(const char* library, const char* function) noexcept;

// Patches what is loaded now and watches dlopen. Callable again; only what is new is patched.
__attribute__((visibility("default"))) void install_hooks() noexcept;

// Looks for libraries that came without our noticing, and patches them.
__attribute__((visibility("default"))) void rescan_libraries() noexcept;

}  // namespace msmemscope
