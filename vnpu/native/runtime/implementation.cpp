// What tools ask of libascendcl_impl.so instead of libascendcl.so: which device and which stream a thread is on.
#include <cstdint>

#include "kernel_launch.h"
#include "streams.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtGetDeviceImpl(int32_t* device) { return rtGetDevice(device); }

EXPORTED int aclrtStreamGetIdImpl(void* stream, int32_t* number) {
    if (number == nullptr || !virtual_npu::is_stream(stream)) return virtual_npu::kRuntimeInvalidParameter;
    *number = stream == nullptr ? 0 : static_cast<virtual_npu::Stream*>(stream)->number;
    return virtual_npu::kRuntimeSuccess;
}
