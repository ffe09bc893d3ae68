// The Python module mstx: marks and ranges from Python, as the package of that name beside CANN has them.
// Written for the stable interface of CPython 3.10, so that one build serves every later version.
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>

#include <cstdint>

#include "injection.h"

namespace {

using namespace virtual_npu::mstx;

// (message, stream) as both functions take them; the stream is the number of a stream, its handle, or None. False with
// an exception set if the arguments are something else.
bool parse(PyObject* arguments, PyObject* keywords, const char* format, const char** message, void** stream) {
    static const char* names[] = {"message", "stream", nullptr};
    PyObject* handle = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, format, const_cast<char**>(names), message, &handle)) {
        return false;
    }
    *stream = nullptr;
    if (handle != nullptr && handle != Py_None) *stream = PyLong_AsVoidPtr(handle);
    return PyErr_Occurred() == nullptr;
}

PyObject* mark(PyObject*, PyObject* arguments, PyObject* keywords) {
    const char* message = nullptr;
    void* stream = nullptr;
    if (!parse(arguments, keywords, "s|O:mark", &message, &stream)) return nullptr;
    call<void>(kCore, kMark, message, stream);
    Py_RETURN_NONE;
}

PyObject* range_start(PyObject*, PyObject* arguments, PyObject* keywords) {
    const char* message = nullptr;
    void* stream = nullptr;
    if (!parse(arguments, keywords, "s|O:range_start", &message, &stream)) return nullptr;
    return PyLong_FromUnsignedLongLong(call<uint64_t>(kCore, kRangeStart, message, stream));
}

PyObject* range_end(PyObject*, PyObject* range) {
    const unsigned long long number = PyLong_AsUnsignedLongLong(range);
    if (PyErr_Occurred() != nullptr) return nullptr;
    call<void>(kCore, kRangeEnd, static_cast<uint64_t>(number));
    Py_RETURN_NONE;
}

PyObject* get_tool_id(PyObject*, PyObject*) {
    uint64_t tool = 0;
    call<void>(kCore, kGetToolId, &tool);
    return PyLong_FromUnsignedLongLong(tool);
}

PyMethodDef methods[] = {
    {"mark", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&mark)), METH_VARARGS | METH_KEYWORDS,
     "mark(message, stream=None): say that something happened."},
    {"range_start", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&range_start)),
     METH_VARARGS | METH_KEYWORDS,
     "range_start(message, stream=None): begin a range and return its number, 0 without a tool."},
    {"range_end", &range_end, METH_O, "range_end(number): end a range."},
    {"get_tool_id", &get_tool_id, METH_NOARGS, "get_tool_id(): return the number of the injected tool, 0 without one."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "mstx",
    "Marks and ranges for tools that are injected through mstx.",
    0,
    methods,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit_mstx() { return PyModule_Create(&definition); }
