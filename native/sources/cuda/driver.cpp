#include "sources/cuda/driver.h"

#include <cstring>

#include "core/observe/blocks.h"
#include "core/observe/out_of_memory.h"
#include "core/writer/keep_errno.h"
#include "interpose/patcher.h"
#include "sources/cuda/asking_library.h"
#include "sources/cuda/device_usage.h"
#include "sources/cuda/devices.h"
#include "sources/cuda/graph_capture.h"
#include "sources/driver_memory.h"

namespace msmemscope::cuda {
namespace {

using Address = unsigned long long;  // CUdeviceptr, and the handle of physical memory

std::uint64_t number_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }
// The highest byte is the pool's where blocks are followed. Addresses have none, and handles are what the driver likes.
std::uint64_t number_of(Address address) noexcept { return address & 0xFFFFFFFFFFFFFF; }

// CUmemAllocationProp: cuda.h of CUDA 10.2 and later.
struct PhysicalMemory {
    int type;
    int handle_types;
    int location_type;
    int location;
};
constexpr int kOnDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE

void note_allocation(int device_number, std::uint64_t address, std::uint64_t bytes, const CallSite& site) noexcept {
    const format::Device device = device_of_runtime(device_number);
    if (device == format::kDeviceNone || !recorder::observes(device)) {
        return;
    }
    const KeepErrno keep_errno;
    if (recorder::is_selected(kSelectAlloc)) {
        record_device_usage(device_number, device);  // before the MALLOC, which shows what is in use with it
    }
    recorder::observe_allocation(format::Pool::kHal, device, address, bytes, site,
                                 attributes_of_caller(site.return_address));
}

// What came of a call that allocates on a device.
void note_result(int result, int device_number, std::uint64_t address, std::uint64_t bytes, const char* function,
                 const CallSite& site) noexcept {
    if (result == kSuccess && address != 0) {
        out_of_memory::forget();
        note_allocation(device_number, address, bytes, site);
    } else if (result == kOutOfMemory) {
        const format::Device device = device_of_runtime(device_number);
        record_usage_now(device);
        out_of_memory::record({function, device, bytes, 0}, site);
    }
}

// Names of functions. A hook whose body takes its name has entries of its own.
constexpr char kMalloc[] = "cudaMalloc";
constexpr char kMallocManaged[] = "cudaMallocManaged";
constexpr char kMallocAsync[] = "cudaMallocAsync";
constexpr char kMallocFromPool[] = "cudaMallocFromPoolAsync";
constexpr char kFree[] = "cudaFree";
constexpr char kFreeAsync[] = "cudaFreeAsync";
constexpr char kHostAlloc[] = "cudaHostAlloc";
constexpr char kMallocHost[] = "cudaMallocHost";
constexpr char kFreeHost[] = "cudaFreeHost";
constexpr char kHostRegister[] = "cudaHostRegister";
constexpr char kHostUnregister[] = "cudaHostUnregister";
constexpr char kMemAlloc[] = "cuMemAlloc_v2";
constexpr char kMemAllocManaged[] = "cuMemAllocManaged";
constexpr char kMemAllocAsync[] = "cuMemAllocAsync";
constexpr char kMemFree[] = "cuMemFree_v2";
constexpr char kMemFreeAsync[] = "cuMemFreeAsync";
constexpr char kMemCreate[] = "cuMemCreate";
constexpr char kMemRelease[] = "cuMemRelease";
constexpr char kMemHostAlloc[] = "cuMemHostAlloc";
constexpr char kMemAllocHost[] = "cuMemAllocHost_v2";
constexpr char kMemFreeHost[] = "cuMemFreeHost";
constexpr char kMemHostRegister[] = "cuMemHostRegister_v2";
constexpr char kMemHostUnregister[] = "cuMemHostUnregister";

// Memory of the calling thread's device. More: what follows the size.
template <const char* Function, typename Pointer, typename... More>
int allocate(const Call<int(Pointer*, std::size_t, More...)>& call, Pointer* memory, std::size_t bytes, More... more) {
    const DriverCall under_way;
    const int result = call.real(memory, bytes, more...);
    if ((result == kSuccess || result == kOutOfMemory) && DriverCall::is_outermost() && memory != nullptr) {
        note_result(result, current_device(), result == kSuccess ? number_of(*memory) : 0, bytes, Function, call.site);
    }
    return result;
}

// The end of device memory, of physical memory, or of pinned memory.
template <const char* Function, typename Pointer, typename... More>
int free(const Call<int(Pointer, More...)>& call, Pointer memory, More... more) {
    driver_memory::End end(number_of(memory), call.site);
    int result = 0;
    {
        const DriverCall under_way;
        result = call.real(memory, more...);
    }
    end.finish(result == kSuccess, record_usage_of);
    return result;
}

template <const char* Function, typename... More>
int allocate_pinned(const Call<int(void**, std::size_t, More...)>& call, void** memory, std::size_t bytes,
                    More... more) {
    const DriverCall under_way;
    const int result = call.real(memory, bytes, more...);
    if (!DriverCall::is_outermost() || memory == nullptr) {
        return result;
    }
    if (result == kSuccess && *memory != nullptr) {
        driver_memory::note_pinned(*memory, bytes, call.site);
    } else if (result == kOutOfMemory) {
        out_of_memory::record({Function, format::kDeviceCpu, bytes, 0}, call.site);
    }
    return result;
}

template <const char* Function>
int register_host(const Call<int(void*, std::size_t, unsigned)>& call, void* memory, std::size_t bytes,
                  unsigned flags) {
    const DriverCall under_way;
    const int result = call.real(memory, bytes, flags);
    if (result == kSuccess && DriverCall::is_outermost() && memory != nullptr) {
        driver_memory::note_registered(memory, bytes, call.site);
    }
    return result;
}

int mem_create(const Call<int(Address*, std::size_t, const PhysicalMemory*, unsigned long long)>& call, Address* handle,
               std::size_t bytes, const PhysicalMemory* properties, unsigned long long flags) {
    const DriverCall under_way;
    const int result = call.real(handle, bytes, properties, flags);
    if (DriverCall::is_outermost() && handle != nullptr && properties != nullptr &&
        properties->location_type == kOnDevice) {
        note_result(result, properties->location, result == kSuccess ? number_of(*handle) : 0, bytes, kMemCreate,
                    call.site);
    }
    return result;
}

int mem_map(const Call<int(Address, std::size_t, std::size_t, Address, unsigned long long)>& call, Address memory,
            std::size_t bytes, std::size_t offset, Address handle, unsigned long long flags) {
    const int result = call.real(memory, bytes, offset, handle, flags);
    if (result == kSuccess) {
        const KeepErrno keep_errno;
        recorder::note_mapped(number_of(handle), memory, bytes);
    }
    return result;
}

int mem_unmap(const Call<int(Address, std::size_t)>& call, Address memory, std::size_t bytes) {
    const int result = call.real(memory, bytes);
    if (result == kSuccess) {
        const KeepErrno keep_errno;
        recorder::note_unmapped(memory);
    }
    return result;
}

void* replaced(const char* name, void* function) noexcept;

int entry_point(const Call<int(const char*, void**, unsigned long long, void*)>& call, const char* name,
                void** function, unsigned long long flags, void* status) {
    const int result = call.real(name, function, flags, status);
    if (result == kSuccess && function != nullptr) {
        *function = replaced(name, *function);
    }
    return result;
}

int entry_point_by_version(const Call<int(const char*, void**, unsigned, unsigned long long, void*)>& call,
                           const char* name, void** function, unsigned version, unsigned long long flags,
                           void* status) {
    const int result = call.real(name, function, version, flags, status);
    if (result == kSuccess && function != nullptr) {
        *function = replaced(name, *function);
    }
    return result;
}

int proc_address(const Call<int(const char*, void**, int, unsigned long long, void*)>& call, const char* name,
                 void** function, int version, unsigned long long flags, void* status) {
    const int result = call.real(name, function, version, flags, status);
    if (result == kSuccess && function != nullptr) {
        *function = replaced(name, *function);
    }
    return result;
}

constexpr const char* kSource = "cuda_driver";

constexpr Hook kHookList[] = {
    hook<&allocate<kMalloc, void*>>(nullptr, kMalloc, kSource),
    hook<&allocate<kMallocManaged, void*, unsigned>>(nullptr, kMallocManaged, kSource),
    hook<&allocate<kMallocAsync, void*, void*>>(nullptr, kMallocAsync, kSource),
    hook<&allocate<kMallocFromPool, void*, void*, void*>>(nullptr, kMallocFromPool, kSource),
    hook<&free<kFree, void*>>(nullptr, kFree, kSource),
    hook<&free<kFreeAsync, void*, void*>>(nullptr, kFreeAsync, kSource),
    hook<&allocate_pinned<kHostAlloc, unsigned>>(nullptr, kHostAlloc, kSource),
    hook<&allocate_pinned<kMallocHost>>(nullptr, kMallocHost, kSource),
    hook<&free<kFreeHost, void*>>(nullptr, kFreeHost, kSource),
    hook<&register_host<kHostRegister>>(nullptr, kHostRegister, kSource),
    hook<&free<kHostUnregister, void*>>(nullptr, kHostUnregister, kSource),
    hook<&allocate<kMemAlloc, Address>>(nullptr, kMemAlloc, kSource),
    hook<&allocate<kMemAllocManaged, Address, unsigned>>(nullptr, kMemAllocManaged, kSource),
    hook<&allocate<kMemAllocAsync, Address, void*>>(nullptr, kMemAllocAsync, kSource),
    hook<&free<kMemFree, Address>>(nullptr, kMemFree, kSource),
    hook<&free<kMemFreeAsync, Address, void*>>(nullptr, kMemFreeAsync, kSource),
    hook<&mem_create>(nullptr, kMemCreate, kSource),
    hook<&free<kMemRelease, Address>>(nullptr, kMemRelease, kSource),
    hook<&mem_map>(nullptr, "cuMemMap", kSource),
    hook<&mem_unmap>(nullptr, "cuMemUnmap", kSource),
    hook<&allocate_pinned<kMemHostAlloc, unsigned>>(nullptr, kMemHostAlloc, kSource),
    hook<&allocate_pinned<kMemAllocHost>>(nullptr, kMemAllocHost, kSource),
    hook<&free<kMemFreeHost, void*>>(nullptr, kMemFreeHost, kSource),
    hook<&register_host<kMemHostRegister>>(nullptr, kMemHostRegister, kSource),
    hook<&free<kMemHostUnregister, void*>>(nullptr, kMemHostUnregister, kSource),
    hook<&entry_point>(nullptr, "cudaGetDriverEntryPoint", kSource),
    hook<&entry_point_by_version>(nullptr, "cudaGetDriverEntryPointByVersion", kSource),
    hook<&proc_address>(nullptr, "cuGetProcAddress_v2", kSource),
};

// The name that a function of the driver has for who asks for its entry point: without the version.
bool is_asked_for(const char* asked, const char* function) noexcept {
    const std::size_t bytes = std::strlen(asked);
    return std::strncmp(asked, function, bytes) == 0 &&
           (function[bytes] == '\0' || std::strcmp(function + bytes, "_v2") == 0);
}

void* replaced(const char* name, void* function) noexcept {
    if (name == nullptr || function == nullptr) {
        return function;
    }
    for (const HookTable* table : {&kDriverHooks, &kGraphCaptureHooks}) {
        for (std::size_t number = 0; number < table->count; ++number) {
            const Hook& hook = table->hooks[number];
            if (is_asked_for(name, hook.function)) {
                void* const replacement = replacement_of(*hook.entries, function);
                return replacement != nullptr ? replacement : function;
            }
        }
    }
    return function;
}

}  // namespace

const HookTable kDriverHooks = table_of(kHookList, nullptr, Names::kAll);

}  // namespace msmemscope::cuda
