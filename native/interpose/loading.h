// How we learn that libraries were loaded, without standing between the program and the dynamic loader.
//
// The return address tells dlopen in whose name it searches. The libraries it loads inherit search paths from that
// caller. So we never call it for a program. We leave the loader alone, and learn of libraries in three ways:
//
// - The start-up code of every library (crti.o) calls __gmon_start__ if somebody defines it. We do. The call comes in
//   the loading thread. All images that come along have been relocated by then, and none of their constructors has run.
// - An image without such start-up code is found at the next dlsym, by which the program gets at the functions it
//   loaded.
// - Otherwise it is found at the next dlopen. Both are entered by a jump that leaves the return address as it is.
//
// The loader's own lock makes patching safe. An image that another thread is still relocating is in the list of images
// already, and its pages must not be touched. While dlsym calls the resolver of an indirect function, it holds that
// lock. So such a resolver does the patching.
#pragma once

namespace msmemscope {

// Calls patch_new_images() with the loader's lock held: waits while another thread loads or unloads a library.
void patch_under_loader_lock() noexcept;

// Called by the start-up code of each library; for what could not be done when we were loaded ourselves. Weak: a
// program of tests is not preloaded.
__attribute__((weak)) void begin_if_postponed() noexcept;

// The functions that are called in place of the program's dlopen and dlsym; null for any other name. The function
// `real` is called in the end. If a program's slot already holds another function, the slot is left alone.
struct LoaderCall {
    void* replacement;
    void* real;
};
LoaderCall loader_call(const char* name) noexcept;

}  // namespace msmemscope
