// Launching kernels (libruntime.so). There is no device code here: a kernel is a name, and for the operators of
// libopapi.so a function of the host that does its work. A launch runs that function at once, unless the stream has a
// detour (stream_work.h), and tells a profiler what the real runtime tells it: which kernel was launched as which task,
// and when the device began and ended it.
//
// A program gets a function by any name, from rtFunctionRegister (launched by its stub), rtBinaryGetFunctionByName or
// aclrtBinaryGetFunction (launched by its handle). Such a kernel computes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

int rtDevBinaryRegister(const void* binary, void** handle);
int rtDevBinaryUnRegister(void* handle);
int rtFunctionRegister(void* binary, const void* stub, const char* name, const void* device_name, uint32_t mode);
int rtBinaryGetFunctionByName(void* binary, const char* name, void** function);

int rtKernelLaunch(const void* stub, uint32_t blocks, void* arguments, uint32_t bytes, void* description, void* stream);
int rtKernelLaunchWithHandleV2(void* handle, uint64_t tiling_key, uint32_t blocks, void* arguments, void* description,
                               void* stream, const void* configuration);
int rtKernelLaunchWithFlagV2(const void* stub, uint32_t blocks, void* arguments, void* description, void* stream,
                             uint32_t flags, const void* configuration);
int rtAicpuKernelLaunchExWithArgs(uint32_t type, const char* name, uint32_t blocks, const void* arguments,
                                  void* description, void* stream, uint32_t flags);
int rtLaunchKernelByFuncHandle(void* function, uint32_t blocks, void* arguments, void* stream);
int rtLaunchKernelByFuncHandleV2(void* function, uint32_t blocks, void* arguments, void* stream,
                                 const void* configuration);
int rtGetDevice(int32_t* device);

// Not of the real runtime. A function with a body: the same handle for the same name. The body gets the pointer that
// is launched as the kernel's arguments. They belong to the caller until the launch returns; where the kernel runs
// later (stream_work.h), `keep` makes what it then gets, perhaps more than once, and `release` ends that.
void* virtual_npu_kernel_function(const char* name, void (*body)(void* arguments),
                                  void* (*keep)(void* arguments) = nullptr, void (*release)(void* kept) = nullptr);
// The device of the calling thread's context, as the runtime and as the driver number it; -1: none.
void virtual_npu_set_current_device(int32_t device, int32_t driver_device);
int32_t virtual_npu_current_driver_device();
// The driver's number of a stream's device; the null stream is that of the calling thread's device. -1: none.
int32_t virtual_npu_device_of_stream(const void* stream);

}  // extern "C"

namespace virtual_npu {

enum RuntimeError : int {
    kRuntimeSuccess = 0,
    kRuntimeInvalidParameter = 107000,
    kRuntimeNoContext = 107002,
    kRuntimeDeviceFailed = 507015,  // of the real codes the one of a kernel that raised an exception on the device
};

}  // namespace virtual_npu
