// Calls into other processes for Python; made by `msmemscope attach`, in a process that is not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `load_and_call` to the module.
void define_remote_call(nanobind::module_& module);

}  // namespace msmemscope
