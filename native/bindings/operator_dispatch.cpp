#include "operator_dispatch.h"

#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "dispatch_stack.h"
#include "operator_collector.h"
#include "program_errors.h"
#include "sources/torch_cpu/dispatch_modes.h"

namespace msmemscope {
namespace {

// How an operator is called and recorded. Operators and their callees are kept for ever, because there is one of each.
struct KnownOperator {
    PyObject* callee;
    OperatorPlan* plan;  // null: it is left to Python
};

// All of it is used under the GIL only.
PyTypeObject* overload_type = nullptr;
PyObject* overload_call = nullptr;  // what its class had as `__call__` when it was known to call `_op` alone
unsigned overload_version = 0;      // of the class, when that was looked at last
bool calls_directly = false;
PyObject* python_dispatch = nullptr;
PyObject* make_plan = nullptr;
PyObject* find_operator = nullptr;
std::atomic<PyObject*> operator_visitor{nullptr};
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
    PyObject* const known = operator_visitor.load(std::memory_order_relaxed);
    if (known == nullptr || --operators_left >= 0) {
        return true;
    }
    PyObject* const visitor = Py_NewRef(known);
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
                          PyDict_CheckExact(arguments[3]) && count_modes() == 0 && may_call_directly() &&
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
    PyObject* result = nullptr;
    {
        const WithLazyKeys lazy(plan.kept_keys);
        result =
            PyObject_Call(known->callee, arguments[2], PyDict_GET_SIZE(arguments[3]) == 0 ? nullptr : arguments[3]);
    }
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

OperatorPlan* plan_of_named(const char* name, const char* overload, PyObject*& func) {
    OperatorPlan* plan = nullptr;
    PyObject* const found = PyObject_CallFunction(find_operator, "ss", name, overload);
    if (found != nullptr && found != Py_None) {
        const auto place = known_operators().find(found);
        const KnownOperator* const known = place == known_operators().end() ? know_operator(found) : &place->second;
        plan = known == nullptr ? nullptr : known->plan;
        func = found;  // one that has a plan is kept
    }
    Py_XDECREF(found);
    end_exception();
    return plan;
}

void operator_ran() {
    if (operator_visitor.load(std::memory_order_relaxed) == nullptr || --operators_left >= 0) {
        return;
    }
    operators_left = 0;
    if (Py_IsInitialized() == 0) {  // it has ended, and the program not yet
        return;
    }
    const PyGILState_STATE state = PyGILState_Ensure();
    {
        const HeldException exception;
        if (!visit_operators()) {
            end_exception();
        }
    }
    PyGILState_Release(state);
}

PyObject* set_dispatch(PyObject*, PyObject* arguments) {
    PyObject* type = nullptr;
    PyObject* in_python = nullptr;
    PyObject* plan_maker = nullptr;
    PyObject* finder = nullptr;
    int is_direct = 0;
    const char* shortcut = nullptr;
    long long depth = 0;
    int graph_task = 0;
    int gradients = 0;
    if (PyArg_ParseTuple(arguments, "O!psOOOLip", &PyType_Type, &type, &is_direct, &shortcut, &in_python, &plan_maker,
                         &finder, &depth, &graph_task, &gradients) == 0) {
        return nullptr;
    }
    if (is_direct == 0 || !learn_thread_state({depth, graph_task, gradients != 0})) {
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
    keep(find_operator, finder);
    Py_RETURN_TRUE;
}

PyObject* dispatch_function(PyObject*, PyObject* mode) {
    if (python_dispatch == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "set_dispatch was not called, or did not succeed");
        return nullptr;
    }
    return PyCFunction_New(&kDispatch, mode);
}

PyObject* dispatch_depth(PyObject*, PyObject*) { return PyLong_FromLongLong(count_modes()); }

PyObject* hide_mode(PyObject*, PyObject* arguments) {
    PyObject* mode = nullptr;
    long long depth = 0;
    if (PyArg_ParseTuple(arguments, "OL", &mode, &depth) == 0) {
        return nullptr;
    }
    const bool is_known = learn_our_mode(mode, depth);
    if (is_known) {
        dispatch_modes::set_ours_is_alone(&ours_is_alone);
    }
    return PyBool_FromLong(is_known ? 1 : 0);
}

PyObject* set_operator_visitor(PyObject*, PyObject* function) {
    PyObject* const before = operator_visitor.exchange(function == Py_None ? nullptr : Py_NewRef(function));
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

}  // namespace msmemscope
