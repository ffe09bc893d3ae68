// The interposition engine. It redirects calls of given libraries by writing the GOT slots through which they call.
// Observers declare their hooks as a table (hooks.h).
//
// One mechanism serves both ways in. At load time the core is preloaded, and patches the mapped images before any of
// their constructors run. If it comes late, it patches the images that it finds. Libraries that are loaded afterwards
// are patched before their own constructors run (loading.h says how we learn of them).
#pragma once

namespace msmemscope {

// A function by its name, of the first image in the order of loading that has it; null if none is loaded. Does not wait
// for the loader: a constructor that runs in another thread may be waiting for this one.
void* find_function(const char* name) noexcept;

// Patches the images that are loaded now, and from now on those that are loaded later. Callable again.
__attribute__((visibility("default"))) void install_hooks() noexcept;

struct HookEntries;

// The entry of a hook that leads to a function, or the function itself if that is an entry. Null if all entries lead
// elsewhere.
void* replacement_of(HookEntries& entries, void* function) noexcept;

// The hook that a program gets when it looks up this function by its name with a handle of dlopen. Null if it gets the
// function itself.
void* replacement_by_name(const char* name, void* handle) noexcept;

// Patches the images that were loaded since the last time. The caller holds the loader's lock: nothing is loaded or
// unloaded meanwhile, and every image in the loader's list is complete.
void patch_new_images() noexcept;

}  // namespace msmemscope
