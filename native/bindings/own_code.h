// Python code of ours that the interpreter runs between two instructions of the program, because it was asked to.
#pragma once

#include <Python.h>

#include "core/observe/host_sampling.h"

namespace msmemscope {

// While it exists, what this thread allocates is no host memory of the program, and the program's profiler or debugger
// is not told what this thread runs.
//
// In Python 3.11 the latter is more than politeness. A traced function there begins by looking whether something is
// pending, and looks again until nothing is. Within a pending call no other one is made: it would look for ever.
class OwnCode {
public:
    OwnCode() : thread_(PyThreadState_Get()) {
        recorder::set_runs_own_code(true);
#if PY_VERSION_HEX >= 0x030B0000
        PyThreadState_EnterTracing(thread_);
#endif
    }
    ~OwnCode() {
#if PY_VERSION_HEX >= 0x030B0000
        PyThreadState_LeaveTracing(thread_);
#endif
        recorder::set_runs_own_code(false);
    }
    OwnCode(const OwnCode&) = delete;
    OwnCode& operator=(const OwnCode&) = delete;

private:
    [[maybe_unused]] PyThreadState* thread_;
};

}  // namespace msmemscope
