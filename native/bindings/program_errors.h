// Exceptions that a call of ours meets while the program is at work.
#pragma once

#include <Python.h>

namespace msmemscope {

// Ends the exception that is set. One that a call like ours can raise is dropped. Any other one is the program's: its
// signal handlers run inside of Python code that we call too. It is raised again as soon as the program goes on.
void end_exception();

// Puts the exception that is set aside, and sets it again at the end.
class HeldException {
public:
    HeldException();
    ~HeldException();
    HeldException(const HeldException&) = delete;
    HeldException& operator=(const HeldException&) = delete;

private:
#if PY_VERSION_HEX >= 0x030C0000
    PyObject* exception_;
#else
    PyObject* type_ = nullptr;
    PyObject* value_ = nullptr;
    PyObject* traceback_ = nullptr;
#endif
};

}  // namespace msmemscope
