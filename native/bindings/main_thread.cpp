#include "main_thread.h"

#include <Python.h>
#include <unwind.h>

#include <cstdint>

#include "core/stacks/modules.h"
#include "own_code.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

// An exception that comes out is that of a signal handler of the program, which ran meanwhile: it goes on to the
// program.
int call(void* function) {
    const OwnCode own_code;
    PyObject* const callable = static_cast<PyObject*>(function);
    PyObject* const result = PyObject_CallNoArgs(callable);
    Py_DECREF(callable);
    Py_XDECREF(result);
    return result == nullptr ? -1 : 0;
}

bool call_in_main_thread(const nb::callable& function) {
    PyObject* const callable = function.ptr();
    Py_INCREF(callable);
    if (Py_AddPendingCall(&call, callable) != 0) {
        Py_DECREF(callable);
        return false;
    }
    return true;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context* context, void* is_in_torch) {
    // A return address is behind its call.
    if (is_torch_code(static_cast<std::uint64_t>(_Unwind_GetIP(context)) - 1)) {
        *static_cast<bool*>(is_in_torch) = true;
        return _URC_END_OF_STACK;
    }
    return _URC_NO_REASON;
}

bool is_within_torch() {
    bool is_in_torch = false;
    _Unwind_Backtrace(&look_at_frame, &is_in_torch);
    return is_in_torch;
}

}  // namespace

void define_main_thread(nb::module_& module) {
    module.def("is_within_torch", &is_within_torch,
               "Whether native code of torch has called the Python code that runs on this thread.");
    module.def(
        "call_in_main_thread", &call_in_main_thread, nb::arg("function"),
        "Has the main thread call a function as soon as it evaluates Python code. The function must not raise.\n\n"
        "False if too many calls wait already.");
}

}  // namespace msmemscope
