// The public names of the launch functions, in libascendcl.so.
#include "launch_calls.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtBinaryLoadFromData(const void* data, size_t bytes, const void* options, void** binary) {
    return aclrtBinaryLoadFromDataImpl(data, bytes, options, binary);
}

EXPORTED int aclrtBinaryUnLoad(void* binary) { return aclrtBinaryUnLoadImpl(binary); }

EXPORTED int aclrtBinaryGetFunction(void* binary, const char* name, void** function) {
    return aclrtBinaryGetFunctionImpl(binary, name, function);
}

EXPORTED int aclrtLaunchKernel(void* function, uint32_t blocks, const void* arguments, size_t bytes, void* stream) {
    return aclrtLaunchKernelImpl(function, blocks, arguments, bytes, stream);
}

EXPORTED int aclrtLaunchKernelV2(void* function, uint32_t blocks, const void* arguments, size_t bytes,
                                 void* configuration, void* stream) {
    return aclrtLaunchKernelV2Impl(function, blocks, arguments, bytes, configuration, stream);
}

EXPORTED int aclrtLaunchKernelWithConfig(void* function, uint32_t blocks, void* stream, void* configuration,
                                         void* arguments, void* reserved) {
    return aclrtLaunchKernelWithConfigImpl(function, blocks, stream, configuration, arguments, reserved);
}

EXPORTED int aclrtLaunchKernelWithHostArgs(void* function, uint32_t blocks, void* stream, void* configuration,
                                           void* arguments, size_t bytes, void* placeholders,
                                           size_t placeholder_count) {
    return aclrtLaunchKernelWithHostArgsImpl(function, blocks, stream, configuration, arguments, bytes, placeholders,
                                             placeholder_count);
}
