// The Python function trace: one FUNCTION_CALL record per call, written when it returns.
#pragma once

#include <Python.h>

namespace msmemscope {

// Functions for the extension's method table:
//   describe_program(left_out, module_call_code, package) -> None
//       left_out: tuple of code objects. They and their callees are not traced. They are added to those told before.
//       module_call_code: of torch.nn.Module.__call__, None if not known. Its calls are named by the module's class.
//       package: folder of msmemscope, with a slash at the end. Its functions are not traced, but their callees are.
//   start_function_trace() -> None
//   write_calls_always(wanted) -> None                    also while events are not collected
//   stop_function_trace() -> None
//   function_trace_is_on() -> bool
//   trace_this_thread(frame, event, argument) -> None     threading.setprofile calls it in a new thread
//   record_function(name, start_ns) -> None               one record, whether a trace is on or not
extern PyMethodDef kFunctionTraceMethods[];

// To be called when a code object is destroyed: its address may come back as another one. Holds the GIL.
void forget_traced_code(const PyCodeObject* code) noexcept;

}  // namespace msmemscope
