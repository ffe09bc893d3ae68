// How a call fails: a text for aclGetRecentErrMsg(), and the code that is returned.
#pragma once

#include <cstdarg>
#include <cstdio>

#include "device_failures.h"
#include "interface.h"
#include "kernel_launch.h"
#include "runtime_errors.h"

extern "C" const char* aclGetRecentErrMsg();

namespace virtual_npu {

// The text starts with a code of the form of CANN's own: EI0002 another rank did not come, EI0003 a wrong argument,
// EI0005 the ranks do not agree, EI0006 no connection, EI0007 a resource is missing, EL0004 no memory.
[[gnu::format(printf, 2, 3)]] inline int report(Result code, const char* format, ...) {
    char text[1024];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    virtual_npu_call_refused(virtual_npu_current_driver_device(), text);
    virtual_npu_set_error(text);
    return code;
}

}  // namespace virtual_npu
