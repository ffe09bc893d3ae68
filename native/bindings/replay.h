// The replay of allocations for Python; called by analyses, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `replay` to the module.
void define_replay(nanobind::module_& module);

}  // namespace msmemscope
