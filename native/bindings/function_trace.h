// The Python function trace: one FUNCTION_CALL record per call, written when it returns.
#pragma once

#include <Python.h>

namespace msmemscope {

// Functions for the extension's method table:
//   start_function_trace(suppressed_code, module_call_code) -> None
//   stop_function_trace() -> None
//   function_trace_is_on() -> bool
//   trace_this_thread(frame, event, argument) -> None     what threading.setprofile calls in a new thread
extern PyMethodDef kFunctionTraceMethods[];

}  // namespace msmemscope
