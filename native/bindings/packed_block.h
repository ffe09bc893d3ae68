// Packed event records for Python; called by readers, in processes that are not observed.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `pack_block` and `unpack_blocks` to the module.
void define_packed_block(nanobind::module_& module);

}  // namespace msmemscope
