#include "garbage_collections.h"

#include "core/writer/recorder.h"

namespace msmemscope {
namespace {

struct CollectorFunctions {
    PyObject* is_enabled = nullptr;
    PyObject* get_count = nullptr;
    PyObject* get_threshold = nullptr;
};
CollectorFunctions functions;

// The first of the numbers that a function returns; -1 if there is none.
long first_number(PyObject* function) {
    PyObject* const numbers = PyObject_CallNoArgs(function);
    long number = -1;
    if (numbers != nullptr && PyTuple_Check(numbers) && PyTuple_GET_SIZE(numbers) > 0) {
        number = PyLong_AsLong(PyTuple_GET_ITEM(numbers, 0));
    }
    Py_XDECREF(numbers);
    return number;
}

// The collector begins by itself once there are more new objects than its threshold. The count is that from before the
// collection. Where a program asks for one there are hardly ever as many, unless the collector is off: a threshold of 0
// means that, too.
bool begins_by_itself() {
    PyObject* const enabled = PyObject_CallNoArgs(functions.is_enabled);
    const bool is_on = enabled == Py_True;
    Py_XDECREF(enabled);
    const long threshold = is_on ? first_number(functions.get_threshold) : 0;
    return threshold > 0 && first_number(functions.get_count) > threshold;
}

PyObject* note_collection(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    const bool begins =
        count == 2 && PyUnicode_Check(arguments[0]) && PyUnicode_CompareWithASCIIString(arguments[0], "start") == 0;
    recorder::set_thread_collects(begins && begins_by_itself());
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyMethodDef method{"msmemscope_note_collection",
                   reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&note_collection)), METH_FASTCALL, nullptr};

}  // namespace

PyObject* new_collection_callback() {
    PyObject* const collector = PyImport_ImportModule("gc");
    if (collector == nullptr) {
        return nullptr;
    }
    functions = {PyObject_GetAttrString(collector, "isenabled"), PyObject_GetAttrString(collector, "get_count"),
                 PyObject_GetAttrString(collector, "get_threshold")};
    Py_DECREF(collector);
    const bool has_all =
        functions.is_enabled != nullptr && functions.get_count != nullptr && functions.get_threshold != nullptr;
    return has_all ? PyCFunction_New(&method, nullptr) : nullptr;
}

}  // namespace msmemscope
