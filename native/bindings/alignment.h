// The alignment of sequences for Python; called by analyses, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `align` to the module.
void define_alignment(nanobind::module_& module);

}  // namespace msmemscope
