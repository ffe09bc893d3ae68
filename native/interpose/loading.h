// How we learn that libraries were loaded, without standing between the program and the dynamic loader.
//
// dlopen decides by its return address in whose name it searches, and what it loads inherits search paths from that
// caller. So it is never called for a program; the loader is left alone, and tells us in three ways:
//
// - The start-up code of every library (crti.o) calls __gmon_start__ if somebody defines it. We do. The call comes in
//   the loading thread, after everything that comes along has been relocated and before its first constructor.
// - What has no such start-up code is found when the program calls dlsym next, to get at what it loaded,
// - or dlopen, to load more. Both are entered by a jump that leaves the return address as it is.
//
// The loader's own lock is what makes patching safe: an image that another thread is still relocating is in the list of
// images already, and its pages must not be touched. dlsym holds that lock while it calls the resolver of an indirect
// function, so the patching is done by such a resolver.
#pragma once

namespace msmemscope {

// Calls patch_new_images() with the loader's lock held: waits while another thread loads or unloads a library.
void patch_under_loader_lock() noexcept;

// Called by the start-up code of each library; for what could not be done when we were loaded ourselves. Weak: a
// program of tests is not preloaded.
__attribute__((weak)) void begin_if_postponed() noexcept;

// The functions that are called in place of the program's dlopen and dlsym; null for any other name. real: what is
// called in the end; the slot of a program that has another function there already is left alone.
struct LoaderCall {
    void* replacement;
    void* real;
};
LoaderCall loader_call(const char* name) noexcept;

}  // namespace msmemscope
