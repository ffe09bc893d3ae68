// The launch functions of the acl interface, in the two layers of the real one: public names in libascendcl.so, which
// forward to names with "Impl" behind them in libascendcl_impl.so, which launch through libruntime.so.
#include "launch_calls.h"

#include "kernel_launch.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtBinaryLoadFromDataImpl(const void* data, size_t, const void*, void** binary) {
    return rtDevBinaryRegister(data, binary);
}

EXPORTED int aclrtBinaryUnLoadImpl(void* binary) { return rtDevBinaryUnRegister(binary); }

EXPORTED int aclrtBinaryGetFunctionImpl(void* binary, const char* name, void** function) {
    return rtBinaryGetFunctionByName(binary, name, function);
}

EXPORTED int aclrtLaunchKernelImpl(void* function, uint32_t blocks, const void* arguments, size_t, void* stream) {
    return rtLaunchKernelByFuncHandleV2(function, blocks, const_cast<void*>(arguments), stream, nullptr);
}

EXPORTED int aclrtLaunchKernelV2Impl(void* function, uint32_t blocks, const void* arguments, size_t,
                                     void* configuration, void* stream) {
    return rtLaunchKernelByFuncHandleV2(function, blocks, const_cast<void*>(arguments), stream, configuration);
}

EXPORTED int aclrtLaunchKernelWithConfigImpl(void* function, uint32_t blocks, void* stream, void* configuration,
                                             void* arguments, void*) {
    return rtLaunchKernelByFuncHandleV2(function, blocks, arguments, stream, configuration);
}

EXPORTED int aclrtLaunchKernelWithHostArgsImpl(void* function, uint32_t blocks, void* stream, void* configuration,
                                               void* arguments, size_t, void*, size_t) {
    return rtLaunchKernelByFuncHandleV2(function, blocks, arguments, stream, configuration);
}
