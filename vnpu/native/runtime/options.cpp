// Options, versions and dumps of the runtime that a device without hardware accepts and
// has no use for. Each says so by its type: accepted() takes the call and does nothing; unsupported() refuses it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime_errors.h"
#include "settings.h"

namespace {

int accepted() { return virtual_npu::kAclSuccess; }

int unsupported(const char* function) {
    return virtual_npu::fail(virtual_npu::kAclUnsupported, "EE1001: %s is not part of the virtual NPU", function);
}

constexpr int kPackageDriver = 7;  // the last one of aclCANNPackageName

// As acl_rt.h has it: aclCANNPackageVersion.
struct PackageVersion {
    char version[128];
    char major[64];
    char minor[64];
    char release[64];
    char patch[64];
    char reserved[128];
};

// torch_npu asks for versions when it is imported, and a program may choose the rest until it uses a device: settings()
// would be read too early.
virtual_npu::Settings as_of_now() {
    return virtual_npu::parse_settings([](const char* name) -> const char* { return std::getenv(name); });
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
    const std::string chosen = as_of_now().cann_version;
    std::strcpy(version,
                chosen.empty() ? "8.5.0" : chosen.c_str());  // the interface level that torch_npu 2.13 asks for
    return accepted();
}

// A package that is not installed has no file of its version: INVALID_FILE, and empty texts, which torch_npu 2.10 shows
// without a look at the status.
EXPORTED int aclsysGetCANNVersion(int package, PackageVersion* version) {
    *version = {};
    const virtual_npu::Settings chosen = as_of_now();
    const std::string& text = package == kPackageDriver ? chosen.driver_version : chosen.cann_version;
    if (package < 0 || package > kPackageDriver || text.empty()) {
        return virtual_npu::fail(virtual_npu::kAclInvalidFile, "EE1003: package %d reports no version", package);
    }
    std::strcpy(version->version, text.c_str());
    size_t begin = 0;
    for (auto* part : {&version->major, &version->minor, &version->release, &version->patch}) {
        const size_t end = std::min(text.find('.', begin), text.size());
        // What a version does not have is 0.
        std::strcpy(*part, begin < end ? text.substr(begin, end - begin).c_str() : "0");
        begin = std::min(end + 1, text.size());
    }
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclmdlInitDump() { return accepted(); }
EXPORTED int aclmdlSetDump(const char*) { return accepted(); }
EXPORTED int aclmdlFinalizeDump() { return accepted(); }

// Who sets a callback for exceptions of the device learns of them by statuses instead, at every call that meets one.
EXPORTED int aclrtSetExceptionInfoCallback(void (*)(void*)) { return accepted(); }

// What a stream may have beside its priority decides how a device fetches and reports, not what happens on it.
EXPORTED int aclrtSetStreamAttribute(void*, int, const void* value) {
    return value == nullptr ? virtual_npu::no_room() : accepted();
}

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
