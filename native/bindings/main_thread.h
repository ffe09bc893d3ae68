// Python functions called in the program's main thread, whichever thread of ours asks.
#pragma once

#include <nanobind/nanobind.h>

namespace msmemscope {

// Adds `call_in_main_thread` to the module.
void define_main_thread(nanobind::module_& module);

}  // namespace msmemscope
