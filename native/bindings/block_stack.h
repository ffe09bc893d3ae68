// Blocks as a stack of bytes for Python; called by the viewer, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `stacked_pieces` to the module.
void define_block_stack(nanobind::module_& module);

}  // namespace msmemscope
