// Functions and data of libraries that the program has loaded.
#pragma once

namespace msmemscope {

// By its mangled name; null if the library is not loaded, or has no such thing. A library that is loaded stays.
void* find_in_library(const char* library, const char* name);

}  // namespace msmemscope
