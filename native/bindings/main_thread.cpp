#include "main_thread.h"

#include <Python.h>

namespace nb = nanobind;

namespace msmemscope {
namespace {

// An exception that comes out is that of a signal handler of the program, which ran meanwhile: it goes on to the
// program.
int call(void* function) {
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

}  // namespace

void define_main_thread(nb::module_& module) {
    module.def(
        "call_in_main_thread", &call_in_main_thread, nb::arg("function"),
        "Has the main thread call a function as soon as it evaluates Python code. The function must not raise.\n\n"
        "False if too many calls wait already.");
}

}  // namespace msmemscope
