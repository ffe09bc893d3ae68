#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

void define_dump_rows(nanobind::module_& module);

}  // namespace msmemscope
