// The look at pickles for Python; called by readers, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `walk_pickle` to the module.
void define_plain_pickle(nanobind::module_& module);

}  // namespace msmemscope
