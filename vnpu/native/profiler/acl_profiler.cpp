// libmsprofiler.so: the profiler that programs steer through acl. There is no time on a virtual NPU, so there is
// nothing to be profiled: each function refuses, and says so.
#include <cstddef>
#include <cstdint>

#include "runtime_errors.h"

namespace {

int refuse(const char* function) {
    return virtual_npu::fail(virtual_npu::kAclUnsupported, "EE1001: %s: the virtual NPU has no profiler", function);
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclprofInit(const char*, size_t) { return refuse("aclprofInit"); }
EXPORTED int aclprofFinalize() { return refuse("aclprofFinalize"); }
EXPORTED int aclprofSetConfig(int, const char*, size_t) { return refuse("aclprofSetConfig"); }
EXPORTED int aclprofStart(const void*) { return refuse("aclprofStart"); }
EXPORTED int aclprofStop(const void*) { return refuse("aclprofStop"); }
EXPORTED int aclprofDestroyConfig(const void*) { return refuse("aclprofDestroyConfig"); }
EXPORTED int aclprofGetStepTimestamp(void*, int, void*) { return refuse("aclprofGetStepTimestamp"); }
EXPORTED void* aclprofCreateConfig(uint32_t*, uint32_t, int, const void*, uint64_t) {
    refuse("aclprofCreateConfig");
    return nullptr;
}
EXPORTED void* aclprofCreateStepInfo() {
    refuse("aclprofCreateStepInfo");
    return nullptr;
}
EXPORTED void aclprofDestroyStepInfo(void*) {}
