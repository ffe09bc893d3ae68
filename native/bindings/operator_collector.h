// Operators and the tensors they touch, recorded from a TorchDispatchMode.
//
// Python decides once per operator what its arguments mean (see
// src/msmemscope/capture/operator_facts.py) and hands the decision over as a plan; for each
// call only its number comes across, with the arguments as they are.
#pragma once

#include <Python.h>

namespace msmemscope {

// Functions for the extension's method table:
//   define_operator(name, inputs, keyword_inputs, outputs, written_positions, written_names, written_later) -> int
//   operator_begins(plan, args, kwargs) -> None
//   operator_ends(plan, result) -> None
//   set_tensor_access(tensor_type, data_address, storage_address, describe_device) -> None
extern PyMethodDef kOperatorMethods[];

}  // namespace msmemscope
