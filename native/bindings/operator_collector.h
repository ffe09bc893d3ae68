// Operators and the tensors they touch, recorded from a TorchDispatchMode.
//
// Python decides once per operator what its arguments mean (see src/msmemscope/capture/operator_facts.py). It hands the
// decision over as a plan. For each call only the plan's number comes across, with the arguments as they are.
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

// The part that both ways of calling an operator share. All of these run on one thread, in this order:
// - enter_operator;
// - the caller gathers the tensors that the operator reads and writes;
// - record_beginning;
// - leave_operator;
// - record_end with the operator's results.
Recorded enter_operator(OperatorPlan& plan, const BegunOperator& called, recorder::Pass pass);
void record_beginning(OperatorPlan& plan, format::Device device, const std::vector<Access>& accesses);
Recorded leave_operator();
void record_end(OperatorPlan& plan, std::uint8_t flags, const std::vector<Access>& accesses);

// Record the start and the end of an operator that is called in Python. They never leave an error, and none may be set.
// The operator (func) and its positional arguments (args) are kept until it ends. The kwargs are a dict or None. The
// result is None if the operator failed.
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
