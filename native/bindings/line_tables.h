// Line tables of Python code; called by readers, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `line_of_offset` to the module.
void define_line_tables(nanobind::module_& module);

}  // namespace msmemscope
