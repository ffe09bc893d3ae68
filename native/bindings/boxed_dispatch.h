// Operators are recorded where torch's dispatcher would call Python for a dispatch mode. If ours is the only mode of a
// thread, and Python objects would be made only to call it, they never come to Python. The GIL stays free.
//
// Any other operator goes the way that torch has for it, and so to `operator_dispatch.h`.
#pragma once

#include <Python.h>

namespace msmemscope {

// METH_O: dispatch_boxed(on) -> bool. False if that is not possible: boxed calls are not understood (boxed_calls.h).
PyObject* dispatch_boxed(PyObject* self, PyObject* on);

}  // namespace msmemscope
