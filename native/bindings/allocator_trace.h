// The entries of torch_npu's caching allocator about itself, for the Python side of the capture.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds the functions about the allocator's trace tracker to the module.
void define_allocator_trace(nanobind::module_& module);

}  // namespace msmemscope
