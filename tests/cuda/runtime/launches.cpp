// The emulated runtime, second part: streams, events, graphs and kernels. Everything is done at once, and kernels do
// nothing.
#include <cstring>
#include <map>

#include "emulated.h"

// --- streams, events, graphs

EXPORTED int cudaStreamCreateWithPriority(void** stream, unsigned, int) {
    *stream = new_handle();
    return 0;
}
EXPORTED int cudaStreamCreateWithFlags(void** stream, unsigned) {
    *stream = new_handle();
    return 0;
}
EXPORTED int cudaEventCreateWithFlags(void** event, unsigned) {
    *event = new_handle();
    return 0;
}
EXPORTED int cudaEventElapsedTime(float* milliseconds, void*, void*) {
    *milliseconds = 0.001F;
    return 0;
}
// The streams that are being captured, each with the number of its capture.
namespace {

std::map<void*, unsigned long long>& captures() {
    static auto* const made = new std::map<void*, unsigned long long>;
    return *made;
}
bool is_invalid = false;

}  // namespace

// What would wait for the device ends every capture with an error, as with a capture of the global mode.
int synchronising() {
    const std::lock_guard<std::mutex> guard(state().lock);
    if (captures().empty()) {
        return 0;
    }
    is_invalid = true;
    return failed(kCaptureUnsupported);
}

EXPORTED int cudaStreamBeginCapture(void* stream, int) {
    static unsigned long long next = 1;
    const std::lock_guard<std::mutex> guard(state().lock);
    captures()[stream] = next++;
    return 0;
}
EXPORTED int cudaStreamEndCapture(void* stream, void** graph) {
    const std::lock_guard<std::mutex> guard(state().lock);
    captures().erase(stream);
    if (is_invalid) {
        is_invalid = !captures().empty();
        *graph = nullptr;
        return failed(kCaptureInvalidated);
    }
    *graph = new_handle();
    return 0;
}
EXPORTED int cuStreamBeginCapture_v2(void* stream, int mode) { return cudaStreamBeginCapture(stream, mode); }
EXPORTED int cuStreamEndCapture(void* stream, void** graph) { return cudaStreamEndCapture(stream, graph); }
EXPORTED int cudaStreamGetCaptureInfo(void* stream, int* status, unsigned long long* id, ...) {
    const std::lock_guard<std::mutex> guard(state().lock);
    const auto found = captures().find(stream);
    *status = found != captures().end() ? 1 : 0;
    if (id != nullptr) {
        *id = found != captures().end() ? found->second : 0;
    }
    return 0;
}
EXPORTED int cudaStreamGetCaptureInfo_v2(void* stream, int* status, unsigned long long* id, ...) {
    return cudaStreamGetCaptureInfo(stream, status, id);
}
EXPORTED int cudaStreamIsCapturing(void* stream, int* status) {
    return cudaStreamGetCaptureInfo(stream, status, nullptr);
}
EXPORTED int cudaGraphInstantiate(void** executable, void*, unsigned long long) {
    *executable = new_handle();
    return 0;
}
EXPORTED int cudaGraphInstantiateWithFlags(void** executable, void*, unsigned long long) {
    *executable = new_handle();
    return 0;
}
EXPORTED int cudaGraphGetNodes(void*, void**, std::size_t* count) {
    *count = 1;
    return 0;
}
EXPORTED int cudaStreamCreate(void** stream) { return cudaStreamCreateWithFlags(stream, 0); }
EXPORTED int cudaStreamGetPriority(void*, int* priority) {
    *priority = 0;
    return 0;
}
EXPORTED int cuStreamGetId(void* stream, unsigned long long* number) {
    *number = reinterpret_cast<std::uint64_t>(stream) / 16;
    return 0;
}
EXPORTED int cudaEventCreate(void** event) { return cudaEventCreateWithFlags(event, 0); }

// --- kernels

namespace {

struct Dimensions {
    unsigned x, y, z;
};
struct Configuration {
    Dimensions grid;
    Dimensions block;
    std::size_t shared;
    void* stream;
};
thread_local Configuration configuration;

std::map<const void*, const char*>& kernel_names() {
    static auto* const made = new std::map<const void*, const char*>;
    return *made;
}

}  // namespace

EXPORTED void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
EXPORTED void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*, void*,
                                     int*) {
    const std::lock_guard<std::mutex> guard(state().lock);
    kernel_names()[host] = name;
}
EXPORTED int cudaFuncGetName(const char** name, const void* host) {
    const std::lock_guard<std::mutex> guard(state().lock);
    const auto found = kernel_names().find(host);
    *name = found != kernel_names().end() ? found->second : "";
    return found != kernel_names().end() ? 0 : failed(kInvalidValue);
}
EXPORTED int cuKernelGetName(const char** name, const void* kernel) { return cudaFuncGetName(name, kernel); }
EXPORTED unsigned __cudaPushCallConfiguration(Dimensions grid, Dimensions block, std::size_t shared, void* stream) {
    configuration = {grid, block, shared, stream};
    return 0;
}
EXPORTED int __cudaPopCallConfiguration(Dimensions* grid, Dimensions* block, std::size_t* shared, void** stream) {
    *grid = configuration.grid;
    *block = configuration.block;
    *shared = configuration.shared;
    *stream = configuration.stream;
    return 0;
}
EXPORTED int __cudaGetKernel(const void** kernel, const void* host) {
    *kernel = host;
    return 0;
}
// cudaFuncAttributes
EXPORTED int cudaFuncGetAttributes(void* attributes, const void*) {
    const int values[] = {1024, 32, 90, 90};  // maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion
    std::memset(attributes, 0, 144);
    std::memcpy(static_cast<char*>(attributes) + 24, values, sizeof(values));
    return 0;
}
EXPORTED int cudaDeviceGetAttribute(int* value, int attribute, int) {
    switch (attribute) {
        case 1:  // cudaDevAttrMaxThreadsPerBlock
        case 2:  // cudaDevAttrMaxBlockDimX
            *value = 1024;
            break;
        case 5:  // cudaDevAttrMaxGridDimX
            *value = 0x7FFFFFFF;
            break;
        case 6:  // cudaDevAttrMaxGridDimY
        case 7:  // cudaDevAttrMaxGridDimZ
            *value = 0xFFFF;
            break;
        case 10:  // cudaDevAttrWarpSize
            *value = 32;
            break;
        case 16:  // cudaDevAttrMultiProcessorCount
            *value = 8;
            break;
        case 39:  // cudaDevAttrMaxThreadsPerMultiProcessor
            *value = 2048;
            break;
        case 75:  // cudaDevAttrComputeCapabilityMajor
            *value = 9;
            break;
        case 97:  // cudaDevAttrMaxSharedMemoryPerBlockOptin
            *value = 96 << 10;
            break;
        default:
            *value = 0;
    }
    return 0;
}
EXPORTED int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, std::size_t) {
    *blocks = 1;
    return 0;
}
EXPORTED int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, std::size_t,
                                                                    unsigned) {
    *blocks = 1;
    return 0;
}
EXPORTED int cudaLaunchHostFunc(void*, void (*function)(void*), void* data) {
    function(data);
    return 0;
}

// --- memory pools of the runtime

EXPORTED int cudaDeviceGetDefaultMemPool(void** pool, int) {
    *pool = new_handle();
    return 0;
}

// --- that which does nothing

EXPORTED int cudaDeviceSynchronize() { return synchronising(); }
EXPORTED int cuCtxSynchronize() { return synchronising(); }
DOES_NOTHING(cudaDeviceEnablePeerAccess)
DOES_NOTHING(cudaStreamSynchronize)
DOES_NOTHING(cudaStreamQuery)
DOES_NOTHING(cudaStreamWaitEvent)
DOES_NOTHING(cudaStreamDestroy)
DOES_NOTHING(cudaEventRecord)
DOES_NOTHING(cudaEventRecordWithFlags)
DOES_NOTHING(cudaEventQuery)
DOES_NOTHING(cudaEventSynchronize)
DOES_NOTHING(cudaEventDestroy)
DOES_NOTHING(cudaLaunchKernel)
DOES_NOTHING(__cudaLaunchKernel)
DOES_NOTHING(cudaLaunchKernelExC)
DOES_NOTHING(cudaThreadExchangeStreamCaptureMode)
DOES_NOTHING(cudaGraphNodeGetDependencies)
DOES_NOTHING(__cudaInitModule)
DOES_NOTHING(__cudaRegisterFatBinaryEnd)
DOES_NOTHING(__cudaRegisterVar)
DOES_NOTHING(__cudaUnregisterFatBinary)
DOES_NOTHING(cudaFuncSetAttribute)
DOES_NOTHING(cudaGetSymbolAddress)
DOES_NOTHING(cudaGraphDebugDotPrint)
DOES_NOTHING(cudaGraphDestroy)
DOES_NOTHING(cudaGraphExecDestroy)
DOES_NOTHING(cudaGraphLaunch)
DOES_NOTHING(cudaIpcGetEventHandle)
DOES_NOTHING(cudaIpcOpenEventHandle)
DOES_NOTHING(cudaLaunchCooperativeKernel)
DOES_NOTHING(cudaProfilerStart)
DOES_NOTHING(cudaProfilerStop)
DOES_NOTHING(cudaStreamAddCallback)
