// An emulated CUDA runtime and driver: memory, streams, events and launches of devices that do not exist. Kernels do
// nothing, copies copy, and everything is done at once. Real libraries of PyTorch run on it, and so do programs in C.
//
// Environment:
// - EMULATED_CUDA_DEVICES: how many devices there are; default 1.
// - EMULATED_CUDA_BYTES: memory of each; default 4 GiB.
// - EMULATED_CUDA_CONTEXT: bytes that the context of a process takes on a device; default 64 MiB.
//
// CUDA_MAJOR is the version of CUDA, 12 or 13. Signatures are those of cuda_runtime_api.h and cuda.h. A status is an
// int: 0 success, 1 invalid value, 2 out of memory. Streams and kernels are in launches.cpp; both together are built as
// libcudart.so.
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "emulated.h"

State& state() {
    static auto* const made = new State;
    return *made;
}

static thread_local int last_error = 0;

int failed(int status) {
    last_error = status;
    return status;
}

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGranularity = std::size_t{2} << 20;

std::size_t number_in(const char* variable, std::size_t otherwise) {
    const char* const text = std::getenv(variable);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

int devices() { return static_cast<int>(number_in("EMULATED_CUDA_DEVICES", 1)); }
std::size_t total() { return number_in("EMULATED_CUDA_BYTES", std::size_t{4} << 30); }

thread_local int current = 0;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// Takes bytes of a device; false if it has no more. The lock is held.
bool take(State& all, int device, std::size_t bytes) {
    if (!all.has_context[device]) {
        all.has_context[device] = true;
        all.used[device] += number_in("EMULATED_CUDA_CONTEXT", std::size_t{64} << 20);
    }
    if (all.used[device] + all.used_by_others[device] + bytes > total()) {
        return false;
    }
    all.used[device] += bytes;
    return true;
}

int allocate(std::uint64_t& address, std::size_t bytes, int device) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    const std::size_t size = whole_pages(bytes);
    if (device >= 0 && !take(all, device, size)) {
        return failed(kOutOfMemory);
    }
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return failed(kOutOfMemory);
    }
    address = reinterpret_cast<std::uint64_t>(memory);
    all.blocks[address] = {size, device};
    return 0;
}

int release(std::uint64_t address) {
    if (address == 0) {
        return 0;
    }
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    const auto found = all.blocks.find(address);
    if (found == all.blocks.end()) {
        return failed(kInvalidValue);
    }
    if (found->second.device >= 0) {
        all.used[found->second.device] -= found->second.bytes;
    }
    munmap(reinterpret_cast<void*>(address), found->second.bytes);
    all.blocks.erase(found);
    return 0;
}

struct MemoryProperties {
    int type;
    int handle_types;
    int location_type;
    int location;
};

int nothing() { return 0; }

}  // namespace

// --- devices

EXPORTED int cudaGetDeviceCount(int* count) {
    *count = devices();
    return 0;
}
EXPORTED int cudaGetDevice(int* device) {
    *device = current;
    return 0;
}
EXPORTED int cuCtxGetDevice(int* device) { return cudaGetDevice(device); }
EXPORTED int cudaSetDevice(int device) {
    if (device < 0 || device >= devices()) {
        return failed(101);  // cudaErrorInvalidDevice
    }
    current = device;
    return 0;
}
EXPORTED int cudaDeviceGetPCIBusId(char* text, int room, int device) {
    std::snprintf(text, static_cast<std::size_t>(room), "0000:%02x:00.0", device + 1);
    return 0;
}
EXPORTED int cuDeviceGetPCIBusId(char* text, int room, int device) { return cudaDeviceGetPCIBusId(text, room, device); }
EXPORTED int cudaDriverGetVersion(int* version) {
    *version = CUDA_MAJOR * 1000;
    return 0;
}
EXPORTED int cudaRuntimeGetVersion(int* version) {
    *version = CUDA_MAJOR * 1000;
    return 0;
}
EXPORTED int cudaMemGetInfo(std::size_t* free, std::size_t* whole) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    take(all, current, 0);
    *whole = total();
    *free = total() - all.used[current] - all.used_by_others[current];
    return 0;
}
EXPORTED int cudaGetLastError() {
    const int error = last_error;
    last_error = 0;
    return error;
}
EXPORTED int cudaPeekAtLastError() { return last_error; }
EXPORTED const char* cudaGetErrorString(int error) {
    return error == kOutOfMemory ? "out of memory" : error == 0 ? "no error" : "an error of the emulated runtime";
}
EXPORTED const char* cudaGetErrorName(int error) { return cudaGetErrorString(error); }

// cudaDeviceProp, as the version of CUDA has it.
EXPORTED int cudaGetDeviceProperties(void* properties, int device) {
    auto* const bytes = static_cast<char*>(properties);
    const auto put = [bytes](std::size_t place, auto value) { std::memcpy(bytes + place, &value, sizeof(value)); };
    std::memset(bytes, 0, 700);
    std::snprintf(bytes, 256, "Emulated CUDA device %d", device);
    put(288, total());                // totalGlobalMem
    put(296, std::size_t{48} << 10);  // sharedMemPerBlock
    put(304, 65536);                  // regsPerBlock
    put(308, 32);                     // warpSize
    put(320, 1024);                   // maxThreadsPerBlock
    const int threads[] = {1024, 1024, 64};
    const int grid[] = {0x7FFFFFFF, 65535, 65535};
    std::memcpy(bytes + 324, threads, sizeof(threads));  // maxThreadsDim
    std::memcpy(bytes + 336, grid, sizeof(grid));        // maxGridSize
    put(360, 9);                                         // major
    const bool is_newer = CUDA_MAJOR >= 13;
    put(is_newer ? 384 : 388, 8);                      // multiProcessorCount
    put(is_newer ? 604 : 624, 2048);                   // maxThreadsPerMultiProcessor
    put(is_newer ? 624 : 640, std::size_t{96} << 10);  // sharedMemPerMultiprocessor
    put(is_newer ? 672 : 696, std::size_t{96} << 10);  // sharedMemPerBlockOptin
    return 0;
}
EXPORTED int cudaGetDeviceProperties_v2(void* properties, int device) {
    return cudaGetDeviceProperties(properties, device);
}
EXPORTED int cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return 0;
}
EXPORTED int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -1;
    return 0;
}

// For the emulated management library.
EXPORTED void emulated_cuda_memory(int device, std::size_t* used, std::size_t* used_by_others, std::size_t* whole) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    *used = all.used[device];
    *used_by_others = all.used_by_others[device];
    *whole = total();
}

// As if another process took memory of the first device.
EXPORTED void another_process_takes(int mebibytes) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    all.used_by_others[0] += static_cast<std::size_t>(mebibytes) << 20;
}

// --- memory

EXPORTED int cudaMalloc(void** memory, std::size_t bytes) {
    *memory = nullptr;
    return bytes == 0 ? 0 : allocate(*reinterpret_cast<std::uint64_t*>(memory), bytes, current);
}
EXPORTED int cudaMallocManaged(void** memory, std::size_t bytes, unsigned) { return cudaMalloc(memory, bytes); }
EXPORTED int cudaMallocAsync(void** memory, std::size_t bytes, void*) { return cudaMalloc(memory, bytes); }
EXPORTED int cudaFree(void* memory) { return release(reinterpret_cast<std::uint64_t>(memory)); }
EXPORTED int cudaFreeAsync(void* memory, void*) { return cudaFree(memory); }
EXPORTED int cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    return allocate(*reinterpret_cast<std::uint64_t*>(memory), bytes, -1);
}
EXPORTED int cudaMallocHost(void** memory, std::size_t bytes) { return cudaHostAlloc(memory, bytes, 0); }
EXPORTED int cudaFreeHost(void* memory) { return cudaFree(memory); }
EXPORTED int cudaHostRegister(void*, std::size_t, unsigned) { return 0; }
EXPORTED int cudaHostUnregister(void*) { return 0; }
EXPORTED int cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return 0;
}
EXPORTED int cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, int, void*) {
    std::memcpy(target, source, bytes);
    return 0;
}
EXPORTED int cudaMemcpy(void* target, const void* source, std::size_t bytes, int kind) {
    const int result = synchronising();
    return result != 0 ? result : cudaMemcpyAsync(target, source, bytes, kind, nullptr);
}
EXPORTED int cuMemcpyDtoH_v2(void* target, Address source, std::size_t bytes) {
    return cudaMemcpy(target, reinterpret_cast<const void*>(source), bytes, 2);
}
EXPORTED int cudaMemset(void* target, int value, std::size_t bytes) {
    std::memset(target, value, bytes);
    return 0;
}
EXPORTED int cudaMemsetAsync(void* target, int value, std::size_t bytes, void*) {
    return cudaMemset(target, value, bytes);
}
EXPORTED int cuMemAlloc_v2(Address* memory, std::size_t bytes) {
    return cudaMalloc(reinterpret_cast<void**>(memory), bytes);
}
EXPORTED int cuMemFree_v2(Address memory) { return release(memory); }

// cudaPointerAttributes
EXPORTED int cudaPointerGetAttributes(void* attributes, const void* pointer) {
    struct Attributes {
        int type;  // 0 not registered, 1 of the host, 2 of a device
        int device;
        const void* device_pointer;
        const void* host_pointer;
        long reserved[8];
    } found{0, current, pointer, pointer, {}};
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    auto block = all.blocks.upper_bound(reinterpret_cast<std::uint64_t>(pointer));
    if (block != all.blocks.begin()) {
        --block;
        if (reinterpret_cast<std::uint64_t>(pointer) < block->first + block->second.bytes) {
            found.type = block->second.device >= 0 ? 2 : 1;
            found.device = block->second.device >= 0 ? block->second.device : current;
        }
    }
    std::memcpy(attributes, &found, 24);
    return 0;
}
// --- physical memory and its addresses

EXPORTED int cuMemGetAllocationGranularity(std::size_t* granularity, const void*, int) {
    *granularity = kGranularity;
    return 0;
}
EXPORTED int cuMemAddressReserve(Address* address, std::size_t bytes, std::size_t, Address, Address) {
    void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *address = reinterpret_cast<Address>(memory);
    return memory == MAP_FAILED ? failed(kOutOfMemory) : 0;
}
EXPORTED int cuMemAddressFree(Address address, std::size_t bytes) {
    return munmap(reinterpret_cast<void*>(address), bytes) == 0 ? 0 : failed(kInvalidValue);
}
EXPORTED int cuMemCreate(Address* handle, std::size_t bytes, const MemoryProperties* properties, Address) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    const int device = properties->location;
    if (!take(all, device, bytes)) {
        return failed(kOutOfMemory);
    }
    *handle = all.next_handle++;
    all.handles[*handle] = {bytes, device};
    return 0;
}
EXPORTED int cuMemRelease(Address handle) {
    State& all = state();
    const std::lock_guard<std::mutex> guard(all.lock);
    const auto found = all.handles.find(handle);
    if (found == all.handles.end()) {
        return failed(kInvalidValue);
    }
    all.used[found->second.device] -= found->second.bytes;
    all.handles.erase(found);
    return 0;
}
EXPORTED int cuMemMap(Address address, std::size_t bytes, std::size_t, Address, Address) {
    void* const memory = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return memory == MAP_FAILED ? failed(kInvalidValue) : 0;
}
EXPORTED int cuMemUnmap(Address address, std::size_t bytes) {
    void* const memory = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return memory == MAP_FAILED ? failed(kInvalidValue) : 0;
}
EXPORTED int cuMemSetAccess(Address, std::size_t, const void*, std::size_t) { return 0; }
EXPORTED int cuGetErrorString(int error, const char** text) {
    *text = cudaGetErrorString(error);
    return 0;
}

// --- entry points

namespace {

struct Entry {
    const char* name;
    void* function;
};

template <typename Function>
Entry entry(const char* name, Function* function) {
    return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

EXPORTED int cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long, int* result) {
    static const Entry entries[] = {
        entry("cuMemAlloc", &cuMemAlloc_v2),
        entry("cuMemFree", &cuMemFree_v2),
        entry("cuMemGetAllocationGranularity", &cuMemGetAllocationGranularity),
        entry("cuMemAddressReserve", &cuMemAddressReserve),
        entry("cuMemAddressFree", &cuMemAddressFree),
        entry("cuMemCreate", &cuMemCreate),
        entry("cuMemRelease", &cuMemRelease),
        entry("cuMemMap", &cuMemMap),
        entry("cuMemUnmap", &cuMemUnmap),
        entry("cuMemSetAccess", &cuMemSetAccess),
        entry("cuGetErrorString", &cuGetErrorString),
    };
    *function = reinterpret_cast<void*>(&nothing);
    for (const Entry& one : entries) {
        if (std::strcmp(one.name, name) == 0) {
            *function = one.function;
        }
    }
    if (result != nullptr) {
        *result = 0;
    }
    return 0;
}
EXPORTED int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long flags,
                                              int* result) {
    return cudaGetDriverEntryPoint(name, function, flags, result);
}

// --- that which does nothing

DOES_NOTHING(cudaMemPoolTrimTo)
DOES_NOTHING(cudaMemPoolSetAttribute)
DOES_NOTHING(cudaMemPoolGetAttribute)
DOES_NOTHING(cudaMemPoolSetAccess)
DOES_NOTHING(cudaMemcpyPeerAsync)
DOES_NOTHING(cudaIpcGetMemHandle)
DOES_NOTHING(cudaIpcOpenMemHandle)
DOES_NOTHING(cudaIpcCloseMemHandle)
DOES_NOTHING(cudaMemcpyToSymbol)
