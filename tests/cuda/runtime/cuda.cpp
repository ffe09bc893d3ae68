// The emulated driver library, libcuda.so.1: memory is in cudart.cpp, to which it is linked. Modules and their kernels
// do nothing.
#define EXPORTED extern "C" __attribute__((visibility("default")))
#define DOES_NOTHING(name) \
    EXPORTED int name() { return 0; }

EXPORTED int cuCtxGetCurrent(void** context) {
    *context = reinterpret_cast<void*>(16);
    return 0;
}
EXPORTED int cuDeviceGet(int* device, int number) {
    *device = number;
    return 0;
}
EXPORTED int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* is_active) {
    *flags = 0;
    *is_active = 1;
    return 0;
}
EXPORTED int cuDevicePrimaryCtxRetain(void** context, int) { return cuCtxGetCurrent(context); }
EXPORTED int cuModuleGetFunction(void** function, void*, const char*) { return cuCtxGetCurrent(function); }
EXPORTED int cuModuleLoad(void** module, const char*) { return cuCtxGetCurrent(module); }
EXPORTED int cuModuleLoadData(void** module, const void*) { return cuCtxGetCurrent(module); }
EXPORTED int cuModuleLoadDataEx(void** module, const void*, unsigned, int*, void**) { return cuCtxGetCurrent(module); }

DOES_NOTHING(cuCtxSetCurrent)
DOES_NOTHING(cuDeviceGetAttribute)
DOES_NOTHING(cuFuncGetAttribute)
DOES_NOTHING(cuFuncSetAttribute)
DOES_NOTHING(cuFuncSetCacheConfig)
DOES_NOTHING(cuInit)
DOES_NOTHING(cuLaunchCooperativeKernel)
DOES_NOTHING(cuLaunchKernel)
DOES_NOTHING(cuLinkAddData_v2)
DOES_NOTHING(cuLinkComplete)
DOES_NOTHING(cuLinkCreate_v2)
DOES_NOTHING(cuMemExportToShareableHandle)
DOES_NOTHING(cuMemImportFromShareableHandle)
DOES_NOTHING(cuMemsetD32Async)
DOES_NOTHING(cuModuleUnload)
DOES_NOTHING(cuMulticastAddDevice)
DOES_NOTHING(cuMulticastBindMem)
DOES_NOTHING(cuMulticastCreate)
DOES_NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
DOES_NOTHING(cuPointerGetAttribute)
DOES_NOTHING(cuStreamWriteValue32)
DOES_NOTHING(cuTensorMapEncodeTiled)
