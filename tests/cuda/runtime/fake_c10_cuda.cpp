// A stand-in for libc10_cuda.so: it calls the runtime, the driver and the profiler as that does. Blocks are rounded up
// to 512 bytes, and each freed block is kept for a request of the same size. That is all it has of a caching allocator.
//
// EMULATED_CUDA_LIMIT: bytes that the process may reserve on a device, as torch.cuda.set_per_process_memory_fraction
// says it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>

namespace c10 {

struct Device {
    std::int8_t type;
    std::int8_t index;
};
void reportMemoryUsageToProfiler(void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
                                 Device device);
void reportOutOfMemoryToProfiler(std::int64_t bytes, std::size_t allocated, std::size_t reserved, Device device);

}  // namespace c10

extern "C" {
int cudaGetDevice(int* device);
int cudaGetLastError();
int cudaSetDevice(int device);
int cudaMalloc(void** memory, std::size_t bytes);
int cudaFree(void* memory);
int cudaMallocAsync(void** memory, std::size_t bytes, void* stream);
int cudaFreeAsync(void* memory, void* stream);
struct Dimensions {
    unsigned x, y, z;
};
void** __cudaRegisterFatBinary(void* binary);
void __cudaRegisterFunction(void** binary, const char* host, char* device, const char* name, int limit, void* thread,
                            void* block, void* blocks, void* grid, int* warp);
int cudaLaunchKernel(const void* kernel, Dimensions grid, Dimensions block, void** arguments, std::size_t shared,
                     void* stream);
int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, unsigned long long flags,
                                     int* result);
}

namespace {

struct Pool {
    std::size_t allocated = 0;
    std::size_t reserved = 0;
    std::multimap<std::size_t, void*> free;
    std::map<void*, std::size_t> blocks;
};
Pool pools[16];

struct Properties {
    int type;
    int handle_types;
    int location_type;
    int location;
};

template <typename Function>
Function* driver(const char* name) {
    void* function = nullptr;
    int result = 0;
    cudaGetDriverEntryPointByVersion(name, &function, 12000, 0, &result);
    return reinterpret_cast<Function*>(function);
}

c10::Device cuda(int device) { return {1, static_cast<std::int8_t>(device)}; }

std::size_t limit() {
    const char* const text = std::getenv("EMULATED_CUDA_LIMIT");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : ~std::size_t{0};
}

}  // namespace

extern "C" {

void* fake_cuda_allocate(int device, std::size_t bytes) {
    Pool& pool = pools[device];
    const std::size_t size = (bytes + 511) / 512 * 512;
    void* block = nullptr;
    const auto found = pool.free.find(size);
    if (found != pool.free.end()) {
        block = found->second;
        pool.free.erase(found);
    } else {
        cudaSetDevice(device);
        if (pool.reserved + size > limit() || cudaMalloc(&block, size) != 0) {
            c10::reportOutOfMemoryToProfiler(static_cast<std::int64_t>(bytes), pool.allocated, pool.reserved,
                                             cuda(device));
            return nullptr;
        }
        pool.reserved += size;
    }
    pool.blocks[block] = size;
    pool.allocated += size;
    c10::reportMemoryUsageToProfiler(block, static_cast<std::int64_t>(size), pool.allocated, pool.reserved,
                                     cuda(device));
    return block;
}

void fake_cuda_free(int device, void* block) {
    Pool& pool = pools[device];
    const std::size_t size = pool.blocks[block];
    pool.blocks.erase(block);
    pool.allocated -= size;
    c10::reportMemoryUsageToProfiler(block, -static_cast<std::int64_t>(size), pool.allocated, pool.reserved,
                                     cuda(device));
    pool.free.emplace(size, block);
}

void* fake_cuda_allocate_async(std::size_t bytes) {
    void* block = nullptr;
    return cudaMallocAsync(&block, bytes, nullptr) == 0 ? block : nullptr;
}

// A kernel as the compiler of CUDA registers it: void add(float*, int).
int fake_cuda_launch(void* stream) {
    static char host = 0;
    static bool is_registered = false;
    if (!is_registered) {
        __cudaRegisterFunction(__cudaRegisterFatBinary(nullptr), &host, &host, "_Z3addPfi", -1, nullptr, nullptr,
                               nullptr, nullptr, nullptr);
        is_registered = true;
    }
    return cudaLaunchKernel(&host, {1, 1, 1}, {32, 1, 1}, nullptr, 0, stream);
}

// A kernel whose name nobody knows. Returns the runtime's last error behind it, as PyTorch looks at it.
int fake_cuda_launch_unnamed() {
    static char host = 0;
    cudaLaunchKernel(&host, {1, 1, 1}, {32, 1, 1}, nullptr, 0, nullptr);
    return cudaGetLastError();
}

void fake_cuda_free_async(void* block) { cudaFreeAsync(block, nullptr); }

// A segment that grows, as expandable_segments:True has it: maps physical memory, and returns its handle.
unsigned long long fake_cuda_map(std::size_t bytes, unsigned long long* address) {
    unsigned long long handle = 0;
    const Properties on_device{1, 0, 1, 0};
    const auto create =
        driver<int(unsigned long long*, std::size_t, const Properties*, unsigned long long)>("cuMemCreate");
    if (create(&handle, bytes, &on_device, 0) != 0) {
        return 0;
    }
    driver<int(unsigned long long*, std::size_t, std::size_t, unsigned long long, unsigned long long)>(
        "cuMemAddressReserve")(address, bytes, 0, 0, 0);
    driver<int(unsigned long long, std::size_t, std::size_t, unsigned long long, unsigned long long)>("cuMemMap")(
        *address, bytes, 0, handle, 0);
    return handle;
}

void fake_cuda_unmap(unsigned long long address, std::size_t bytes, unsigned long long handle) {
    driver<int(unsigned long long, std::size_t)>("cuMemUnmap")(address, bytes);
    driver<int(unsigned long long)>("cuMemRelease")(handle);
}
}
