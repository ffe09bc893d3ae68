// The dispatch function of our mode, without Python between torch and the operator. Some calls it cannot judge by
// itself. It leaves them to the mode's own `__torch_dispatch__`, which does the same in Python:
// - calls under tracing;
// - calls with other modes below;
// - tensors of classes with a dispatch of their own;
// - operators without a schema.
#pragma once

#include <Python.h>

namespace msmemscope {

struct OperatorPlan;

// METH_VARARGS: set_dispatch(overload_type, calls_directly, shortcut, in_python, make_plan, find_operator, depth,
// graph_task, gradients_on) -> bool. False if torch cannot be asked from here.
// - overload_type: the class of operators.
// - calls_directly: whether calling one does nothing but call its `_op`.
// - shortcut: the attribute that must be None for this to be so. It is empty if operators have no such attribute.
// - in_python(mode, func, types, args, kwargs): the mode's own dispatch.
// - make_plan(func): the number of its plan, negative for none.
// - find_operator(name, overload): the operator, or None if there may be another one of that name later.
// - depth, graph_task, gradients_on: torch's answers about this thread now, in Python.
PyObject* set_dispatch(PyObject* self, PyObject* arguments);

// METH_O: dispatch_function(mode) -> what is to be the mode's `__torch_dispatch__`
PyObject* dispatch_function(PyObject* self, PyObject* mode);

// METH_NOARGS: dispatch_depth() -> the number of modes on this thread's stack, -1 if torch cannot be asked
PyObject* dispatch_depth(PyObject* self, PyObject* none);

// METH_VARARGS: hide_mode(mode, depth) -> bool. mode: ours, on top of this thread's stack of depth modes, as torch says
// in Python. Where modes of its class are alone on a thread, torch decides from then on as if there were none
// (sources/torch_cpu/dispatch_modes.h). False if torch cannot be asked which modes there are.
PyObject* hide_mode(PyObject* self, PyObject* arguments);

// For operators that do not come here. The plan of the one of this name; null if it is left to Python. Needs the GIL,
// and never leaves an error. func: the operator in Python; kept for ever if it has a plan.
OperatorPlan* plan_of_named(const char* name, const char* overload, PyObject*& func);

// Such an operator has run on this thread, which does not hold the GIL.
void operator_ran();

// METH_O: set_operator_visitor(function) -> None
// function(): called after an operator; returns after how many operators it is to be called again. Or None.
PyObject* set_operator_visitor(PyObject* self, PyObject* function);

}  // namespace msmemscope
