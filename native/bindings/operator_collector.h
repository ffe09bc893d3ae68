// Operators and the tensors they touch, recorded from a TorchDispatchMode.
//
// Python decides once per operator what its arguments mean (see
// src/msmemscope/capture/operator_facts.py) and hands the decision over as a plan; for each
// call only its number comes across, with the arguments as they are.
#pragma once

#include <Python.h>

#include "core/writer/recorder.h"

namespace msmemscope {

struct OperatorPlan;

// The plan that define_operator gave this number. Null with an error set if there is none.
OperatorPlan* plan_of(PyObject* number);

// Record the start of an operator, and its end, on the calling thread. Never leave an error; none may be set.
// func, args: what is called, and its positional arguments; kept until the operator ends. kwargs: a dict or None.
// result: what it returned, None if it failed.
void begin_operator(OperatorPlan& plan, PyObject* func, PyObject* args, PyObject* kwargs, recorder::Pass pass);
void end_operator(OperatorPlan& plan, PyObject* result);

// Functions for the extension's method table:
//   define_operator(name, inputs, keyword_inputs, outputs, written_positions, written_names, written_later) -> int
//   operator_begins(plan, func, args, kwargs, pass) -> None
//   operator_ends(plan, result) -> None
//   running_operators() -> ((func, args), ...)
//   and those of tensor_reader.h, tensor_layout.h and operator_dispatch.h
extern PyMethodDef kOperatorMethods[];

}  // namespace msmemscope
