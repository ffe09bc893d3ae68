#include "program_errors.h"

#include <cstring>

namespace msmemscope {
namespace {

PyObject* take_exception() {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

int raise_again(void* exception) {
    auto* const value = static_cast<PyObject*>(exception);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
    Py_DECREF(value);
    return -1;
}

// Whether a class of exceptions is Python's own or torch's: the program's own classes are raised by nobody else.
bool is_known_class(PyObject* exception) {
    PyObject* const module = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(exception)), "__module__");
    const char* const name = module != nullptr && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : nullptr;
    const bool is_known = name != nullptr && (std::strcmp(name, "builtins") == 0 ||
                                              std::strncmp(name, "torch", std::strlen("torch")) == 0);
    Py_XDECREF(module);
    PyErr_Clear();
    return is_known;
}

// Whether torch, or an attribute of a tensor, raises such an exception.
bool is_of_our_call(PyObject* exception) {
    if (!is_known_class(exception)) {
        return false;
    }
    PyObject* const kinds[] = {PyExc_RuntimeError, PyExc_AttributeError, PyExc_TypeError,  PyExc_ValueError,
                               PyExc_LookupError,  PyExc_MemoryError,    PyExc_ImportError};
    for (PyObject* const kind : kinds) {
        if (PyErr_GivenExceptionMatches(exception, kind) != 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

void end_exception() {
    PyObject* const exception = take_exception();
    if (exception == nullptr) {
        return;
    }
    // Handlers of signals run in the main thread, and so do pending calls.
    if (is_of_our_call(exception) || Py_AddPendingCall(&raise_again, exception) != 0) {
        Py_DECREF(exception);
    }
}

#if PY_VERSION_HEX >= 0x030C0000
HeldException::HeldException() : exception_(PyErr_GetRaisedException()) {}
HeldException::~HeldException() { PyErr_SetRaisedException(exception_); }
#else
HeldException::HeldException() { PyErr_Fetch(&type_, &value_, &traceback_); }
HeldException::~HeldException() { PyErr_Restore(type_, value_, traceback_); }
#endif

}  // namespace msmemscope
