// The watch's functions for Python: see src/msmemscope/capture/watcher.py.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

namespace msmemscope {

void define_watch(nanobind::module_& module);

}  // namespace msmemscope
