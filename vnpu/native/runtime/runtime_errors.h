// Codes and texts of errors. As in the real runtime, the text of the last error belongs to the thread that met it.
#pragma once

#include <cstdarg>
#include <cstdio>

extern "C" {
// Not of the real runtime: how the other emulated libraries leave a text for aclGetRecentErrMsg().
void virtual_npu_set_error(const char* text);
// kAclSuccess, or kAclDeviceFailed with the text of why if a task has failed on the device of the stream; the null
// stream is that of the current device.
int virtual_npu_stream_status(const void* stream);
const char* aclGetRecentErrMsg();
}

namespace virtual_npu {

enum AclError : int {
    kAclSuccess = 0,
    kAclInvalidFile = 100003,
    kAclInvalidParameter = 107000,
    kAclInvalidDevice = 107001,
    kAclNoContext = 107002,
    kAclUnsupported = 207000,
    kAclOutOfMemory = 207001,
    kAclInternalError = 500000,
    kAclDeviceFailed = 507015,
    kAclStreamTimeout = 507046,
    kAclOperatorFailure = 500002,
};

// Leaves the text and returns the code. The text starts with a code of the form of CANN's own error codes.
[[gnu::format(printf, 2, 3)]] inline int fail(AclError code, const char* format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    virtual_npu_set_error(text);
    return code;
}

// The errors of a handle that is no stream, and of a result that has no place.
int no_stream(const void* handle);
int no_room();

}  // namespace virtual_npu
