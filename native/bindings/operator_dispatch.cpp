#include "operator_dispatch.h"

#include <dlfcn.h>

#include <cstdint>
#include <unordered_map>

#include "operator_collector.h"
#include "program_errors.h"
#include "sources/torch_cpu/dispatch_modes.h"

namespace msmemscope {
namespace {

// Static functions of torch that answer for the calling thread. Without arguments, and numbers as results: nothing
// about calling them depends on how torch was compiled.
using DispatchDepth = std::int64_t (*)();
// Returns a reference to a std::shared_ptr of what holds the mode; the bottom of the stack is at 0.
struct HeldMode {
    PyObject* mode;
};
using ModeAt = HeldMode* const* (*)(std::int64_t);
using GraphTask = int (*)();
using GradientsAreOn = bool (*)();
constexpr const char* kDispatchDepth = "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv";
constexpr const char* kModeAt = "_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl";
constexpr const char* kGraphTask = "_ZN5torch8autograd25get_current_graph_task_idEv";
constexpr const char* kGradientsAreOn = "_ZN3c108GradMode10is_enabledEv";

DispatchDepth ask_depth = nullptr;
DispatchDepth count_modes = nullptr;  // the same, also where operators are dispatched in Python
ModeAt mode_at = nullptr;
GraphTask ask_graph_task = nullptr;
GradientsAreOn ask_gradients = nullptr;

// How an operator is called and recorded. Operators and what they are called by are kept for ever: there is one of
// each.
struct KnownOperator {
    PyObject* callee;
    OperatorPlan* plan;  // null: it is left to Python
};

// All of it is used under the GIL only.
PyTypeObject* overload_type = nullptr;
PyTypeObject* our_type = nullptr;   // of modes; once it is set it stays
PyObject* overload_call = nullptr;  // what its class had as `__call__` when it was known to call `_op` alone
unsigned overload_version = 0;      // of the class, when that was looked at last
bool calls_directly = false;
PyObject* python_dispatch = nullptr;
PyObject* make_plan = nullptr;
PyObject* operator_visitor = nullptr;
PyObject* text_op = nullptr;
PyObject* text_shortcut = nullptr;  // null: calls take none
__thread long operators_left = 0;

std::unordered_map<PyObject*, KnownOperator>& known_operators() {
    static auto* const instance = new std::unordered_map<PyObject*, KnownOperator>();  // threads outlive exit
    return *instance;
}

void keep(PyObject*& place, PyObject* value) {
    PyObject* const before = place;
    place = value == Py_None ? nullptr : Py_NewRef(value);
    Py_XDECREF(before);
}

// Of a library that is loaded; null if it is not, or has no such function.
void* find_function(const char* library, const char* name) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) {
        return nullptr;
    }
    void* const found = dlsym(handle, name);
    dlclose(handle);  // torch itself keeps it loaded
    return found;
}

// The program may put a function of its own in its place at any time.
bool may_call_directly() {
    if (overload_type->tp_version_tag != overload_version || overload_version == 0) {
        PyObject* const call = PyObject_GetAttrString(reinterpret_cast<PyObject*>(overload_type), "__call__");
        calls_directly = call != nullptr && call == overload_call;
        Py_XDECREF(call);
        PyErr_Clear();
        overload_version = overload_type->tp_version_tag;
    }
    return calls_directly;
}

// Whether the call of an operator may do something else than call its `_op`, which the program can change at any time.
bool takes_shortcut(PyObject* func) {
    if (text_shortcut == nullptr) {
        return false;
    }
    PyObject* const shortcut = PyObject_GetAttr(func, text_shortcut);
    if (shortcut == nullptr) {
        PyErr_Clear();
        return true;
    }
    Py_DECREF(shortcut);
    return shortcut != Py_None;
}

// Null with an error set on failure.
const KnownOperator* know_operator(PyObject* func) {
    PyObject* const number = PyObject_CallOneArg(make_plan, func);
    if (number == nullptr) {
        return nullptr;
    }
    KnownOperator known{nullptr, nullptr};
    if (Py_TYPE(func) == overload_type && PyLong_AsLong(number) >= 0) {
        known.callee = PyObject_GetAttr(func, text_op);
        known.plan = plan_of(number);
    }
    Py_DECREF(number);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const auto [place, is_new] = known_operators().emplace(func, known);
    if (is_new) {
        Py_INCREF(func);
    }
    return &place->second;
}

recorder::Pass pass_of_thread() {
    if (ask_graph_task() < 0) {
        return recorder::Pass::kForward;
    }
    // A backward pass makes its gradients with gradients off; what a checkpoint runs again is a forward pass.
    return ask_gradients() ? recorder::Pass::kRecomputation : recorder::Pass::kBackward;
}

PyObject* dispatch_in_python(PyObject* mode, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    PyObject* all[8];
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    if (count + named >= 8) {
        PyErr_SetString(PyExc_TypeError, "__torch_dispatch__(func, types, args=(), kwargs=None)");
        return nullptr;
    }
    all[0] = mode;
    for (Py_ssize_t index = 0; index < count + named; ++index) {
        all[index + 1] = arguments[index];
    }
    return PyObject_Vectorcall(python_dispatch, all, static_cast<std::size_t>(count + 1), names);
}

// An operator that raised: its end is recorded, the exception goes on.
void end_failed(OperatorPlan& plan) {
    const HeldException exception;
    end_operator(plan, Py_None);
}

// False with an error set where the program's own code raised meanwhile.
bool visit_operators() {
    if (operator_visitor == nullptr || --operators_left >= 0) {
        return true;
    }
    PyObject* const visitor = Py_NewRef(operator_visitor);
    PyObject* const answer = PyObject_CallNoArgs(visitor);
    Py_DECREF(visitor);
    if (answer == nullptr) {
        return false;
    }
    operators_left = PyLong_AsLong(answer);
    Py_DECREF(answer);
    return PyErr_Occurred() == nullptr;
}

PyObject* dispatch(PyObject* mode, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
    const bool is_usual = count == 4 && names == nullptr && PyTuple_CheckExact(arguments[1]) &&
                          PyTuple_GET_SIZE(arguments[1]) == 0 && PyTuple_CheckExact(arguments[2]) &&
                          PyDict_CheckExact(arguments[3]) && ask_depth() == 0 && may_call_directly() &&
                          !takes_shortcut(arguments[0]);
    if (!is_usual) {
        return dispatch_in_python(mode, arguments, count, names);
    }
    const auto found = known_operators().find(arguments[0]);
    const KnownOperator* known = found == known_operators().end() ? know_operator(arguments[0]) : &found->second;
    if (known == nullptr) {
        return nullptr;
    }
    if (known->plan == nullptr) {
        return dispatch_in_python(mode, arguments, count, names);
    }
    OperatorPlan& plan = *known->plan;
    begin_operator(plan, arguments[0], arguments[2], arguments[3], pass_of_thread());
    PyObject* const result =
        PyObject_Call(known->callee, arguments[2], PyDict_GET_SIZE(arguments[3]) == 0 ? nullptr : arguments[3]);
    if (result == nullptr) {
        end_failed(plan);
        return nullptr;
    }
    end_operator(plan, result);
    if (!visit_operators()) {
        Py_DECREF(result);
        return nullptr;
    }
    return result;
}

PyMethodDef kDispatch = {"__torch_dispatch__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dispatch)),
                         METH_FASTCALL | METH_KEYWORDS, "Records an operator and what it reads and writes."};

}  // namespace

PyObject* set_dispatch(PyObject*, PyObject* arguments) {
    PyObject* type = nullptr;
    PyObject* in_python = nullptr;
    PyObject* plan_maker = nullptr;
    int is_direct = 0;
    const char* shortcut = nullptr;
    long long depth = 0;
    int graph_task = 0;
    int gradients = 0;
    if (PyArg_ParseTuple(arguments, "O!psOOLip", &PyType_Type, &type, &is_direct, &shortcut, &in_python, &plan_maker,
                         &depth, &graph_task, &gradients) == 0) {
        return nullptr;
    }
    ask_depth = reinterpret_cast<DispatchDepth>(find_function("libc10.so", kDispatchDepth));
    ask_gradients = reinterpret_cast<GradientsAreOn>(find_function("libc10.so", kGradientsAreOn));
    ask_graph_task = reinterpret_cast<GraphTask>(find_function("libtorch_cpu.so", kGraphTask));
    if (is_direct == 0 || ask_depth == nullptr || ask_gradients == nullptr || ask_graph_task == nullptr ||
        ask_depth() != depth || ask_graph_task() != graph_task || ask_gradients() != (gradients != 0)) {
        ask_depth = nullptr;
        Py_RETURN_FALSE;
    }
    overload_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    text_op = PyUnicode_InternFromString("_op");
    text_shortcut = *shortcut == '\0' ? nullptr : PyUnicode_InternFromString(shortcut);
    PyObject* const call = PyObject_GetAttrString(type, "__call__");
    if (text_op == nullptr || call == nullptr || (*shortcut != '\0' && text_shortcut == nullptr)) {
        return nullptr;
    }
    overload_call = call;
    keep(python_dispatch, in_python);
    keep(make_plan, plan_maker);
    Py_RETURN_TRUE;
}

PyObject* dispatch_function(PyObject*, PyObject* mode) {
    if (python_dispatch == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "set_dispatch was not called, or did not succeed");
        return nullptr;
    }
    return PyCFunction_New(&kDispatch, mode);
}

PyObject* dispatch_depth(PyObject*, PyObject*) { return PyLong_FromLongLong(ask_depth == nullptr ? -1 : ask_depth()); }

PyObject* hide_mode(PyObject*, PyObject* arguments) {
    PyObject* mode = nullptr;
    long long depth = 0;
    if (PyArg_ParseTuple(arguments, "OL", &mode, &depth) == 0) {
        return nullptr;
    }
    if (our_type == nullptr) {
        count_modes = reinterpret_cast<DispatchDepth>(find_function("libc10.so", kDispatchDepth));
        mode_at = reinterpret_cast<ModeAt>(find_function("libc10.so", kModeAt));
        if (count_modes == nullptr || mode_at == nullptr || depth < 1 || count_modes() != depth ||
            (*mode_at(depth - 1))->mode != mode) {
            Py_RETURN_FALSE;
        }
        our_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(mode))));
        dispatch_modes::set_ours_is_alone(
            [] { return count_modes() == 1 && Py_TYPE((*mode_at(0))->mode) == our_type; });
    }
    return PyBool_FromLong(Py_TYPE(mode) == our_type ? 1 : 0);
}

PyObject* set_operator_visitor(PyObject*, PyObject* function) {
    keep(operator_visitor, function);
    Py_RETURN_NONE;
}

}  // namespace msmemscope
