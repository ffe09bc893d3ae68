// Options, versions and dumps of the runtime that a device without hardware accepts and
// has no use for. Each says so by its type: accepted() takes the call and does nothing; unsupported() refuses it.
#include <cstdint>
#include <cstring>

#include "runtime_errors.h"

namespace {

int accepted() { return virtual_npu::kAclSuccess; }

int unsupported(const char* function) {
    return virtual_npu::fail(virtual_npu::kAclUnsupported, "EE1001: %s is not part of the virtual NPU", function);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtSetDeviceSatMode(int) { return accepted(); }
EXPORTED int aclrtSetOpExecuteTimeOut(uint32_t) { return accepted(); }
EXPORTED int aclrtSetOpExecuteTimeOutV2(uint64_t, uint64_t* actual) {
    if (actual != nullptr) *actual = 0;
    return accepted();
}
EXPORTED int aclrtSetOpWaitTimeout(uint32_t) { return accepted(); }
EXPORTED int aclrtCtxSetSysParamOpt(int, int64_t) { return accepted(); }
EXPORTED int aclrtSetSysParamOpt(int, int64_t) { return accepted(); }
EXPORTED int aclrtCtxGetSysParamOpt(int, int64_t* value) {
    *value = 0;
    return accepted();
}
EXPORTED int aclrtGetVersion(int32_t* major, int32_t* minor, int32_t* patch) {
    *major = 1;
    *minor = 0;
    *patch = 0;
    return accepted();
}
EXPORTED int aclsysGetVersionStr(char*, char* version) {
    std::strcpy(version, "8.5.0");  // the interface level that torch_npu 2.13 asks for
    return accepted();
}

EXPORTED int aclmdlInitDump() { return accepted(); }
EXPORTED int aclmdlSetDump(const char*) { return accepted(); }
EXPORTED int aclmdlFinalizeDump() { return accepted(); }

// Who sets a callback for exceptions of the device learns of them by statuses instead, at every call that meets one.
EXPORTED int aclrtSetExceptionInfoCallback(void (*)(void*)) { return accepted(); }

EXPORTED int aclrtGetRunMode(int* mode) {
    *mode = 1;  // on the host, with a device beside it
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtDeviceGetStreamPriorityRange(int32_t* least, int32_t* greatest) {
    *least = 7;  // as CANN has it; here nothing waits for anything
    *greatest = 0;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtGetFunctionAddr(void*, void**, void**) { return unsupported("aclrtGetFunctionAddr"); }
EXPORTED int rtGetC2cCtrlAddr(uint64_t*, uint32_t*) { return unsupported("rtGetC2cCtrlAddr"); }
