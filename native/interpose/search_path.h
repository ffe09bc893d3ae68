// Where the loader looks for a library on behalf of one caller.
#pragma once

#include <cstddef>

namespace msmemscope {

// Looks for the library in the folders that the image containing `caller` names itself (DT_RUNPATH,
// DT_RPATH), in their order. False if it names none or none has the file: the loader's other places
// are the same for every caller.
bool find_on_search_path_of(const void* caller, const char* name, char* path, std::size_t capacity) noexcept;

}  // namespace msmemscope
