// Loading and launching kernels as the acl interface has it, the inner layer.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

int aclrtBinaryLoadFromDataImpl(const void* data, size_t bytes, const void* options, void** binary);
int aclrtBinaryUnLoadImpl(void* binary);
int aclrtBinaryGetFunctionImpl(void* binary, const char* name, void** function);
int aclrtLaunchKernelImpl(void* function, uint32_t blocks, const void* arguments, size_t bytes, void* stream);
int aclrtLaunchKernelV2Impl(void* function, uint32_t blocks, const void* arguments, size_t bytes, void* configuration,
                            void* stream);
int aclrtLaunchKernelWithConfigImpl(void* function, uint32_t blocks, void* stream, void* configuration, void* arguments,
                                    void* reserved);
int aclrtLaunchKernelWithHostArgsImpl(void* function, uint32_t blocks, void* stream, void* configuration,
                                      void* arguments, size_t bytes, void* placeholders, size_t placeholder_count);

}  // extern "C"
