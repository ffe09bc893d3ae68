#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

void define_dump_writing(nanobind::module_& module);

}  // namespace msmemscope
