// Operators and the tensors they touch, recorded from a TorchDispatchMode.
//
// Python decides once per operator what its arguments mean (see
// src/msmemscope/capture/operator_facts.py) and hands the decision over as a plan; for each
// call only its number comes across, with the arguments as they are.
#pragma once

#include <Python.h>

#include <vector>

#include "core/writer/recorder.h"
#include "operator_plan.h"

namespace msmemscope {

// An operator as it was called, kept until it ends: either in Python, or boxed (see boxed_calls.h).
struct BegunOperator {
    PyObject* func;  // owned while it runs, unless it is boxed: those are kept for ever
    PyObject* args;  // owned, null where it is boxed
    const void* values;
    std::size_t values_count;
};

// Whether the beginning or the end of an operator is to be recorded, and what it reads and writes.
struct Recorded {
    bool is_recorded;
    bool accesses;
    std::uint8_t flags;  // of the pass that it belongs to, for the records of its end
};

// What both ways of calling an operator have in common. An operator begins by enter_operator, then what it reads and
// writes is gathered, then record_beginning; its end is leave_operator, then record_end with what it returned. All on
// one thread.
Recorded enter_operator(OperatorPlan& plan, const BegunOperator& called, recorder::Pass pass);
void record_beginning(OperatorPlan& plan, format::Device device, const std::vector<Access>& accesses);
Recorded leave_operator();
void record_end(OperatorPlan& plan, std::uint8_t flags, const std::vector<Access>& accesses);

// Record the start of an operator that is called in Python, and its end. Never leave an error; none may be set.
// func, args: what is called, and its positional arguments; kept until the operator ends. kwargs: a dict or None.
// result: what it returned, None if it failed.
void begin_operator(OperatorPlan& plan, PyObject* func, PyObject* args, PyObject* kwargs, recorder::Pass pass);
void end_operator(OperatorPlan& plan, PyObject* result);

// Functions for the extension's method table:
//   define_operator(name, inputs, keyword_inputs, outputs, written_positions, written_names, written_later,
//       kept_keys) -> int
//   operator_begins(plan, func, args, kwargs, pass) -> None
//   operator_ends(plan, result) -> None
//   running_operators() -> ((func, args), ...)
//   and those of tensor_reader.h, tensor_layout.h, operator_dispatch.h and boxed_dispatch.h
extern PyMethodDef kOperatorMethods[];

}  // namespace msmemscope
