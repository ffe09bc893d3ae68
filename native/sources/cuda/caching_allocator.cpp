#include "sources/cuda/caching_allocator.h"

#include <atomic>

#include "core/observe/blocks.h"
#include "core/observe/out_of_memory.h"
#include "core/writer/keep_errno.h"
#include "sources/cuda/device_usage.h"
#include "sources/cuda/devices.h"
#include "sources/driver_memory.h"
#include "sources/pool_totals.h"

namespace msmemscope::cuda {
namespace {

constexpr format::Pool kPool = format::Pool::kCuda;

PoolTotals totals(kPool, format::DeviceKind::kCuda);
std::atomic<bool> has_told{false};

// c10::Device as it is passed: the type in the low byte, the index above it.
using PackedDevice = std::uint16_t;
constexpr unsigned kCudaType = 1;

// kDeviceNone for a device of another type.
format::Device device_of(PackedDevice packed) noexcept {
    const auto index = static_cast<std::int8_t>(packed >> 8U);
    return (packed & 0xFFU) == kCudaType ? device_of_runtime(index) : format::kDeviceNone;
}

void begin_block(format::Device device, std::uint64_t address, std::int64_t bytes, const CallSite& site) noexcept {
    recorder::observe_missed_free(kPool, address);  // passes over what is no live block
    recorder::observe_allocation(kPool, device, address, static_cast<std::uint64_t>(bytes), site);
}

void report_memory(const Call<void(void*, std::int64_t, std::size_t, std::size_t, PackedDevice)>& call, void* block,
                   std::int64_t bytes, std::size_t allocated, std::size_t reserved, PackedDevice packed) {
    const format::Device device = device_of(packed);
    if (device != format::kDeviceNone) {
        const KeepErrno keep_errno;
        has_told.store(true, std::memory_order_relaxed);
        const int index = format::index_of(device);
        totals.set(index, static_cast<std::int64_t>(reserved));
        if (recorder::observes(device)) {
            totals.report(index);
            const auto address = reinterpret_cast<std::uint64_t>(block);
            if (bytes > 0) {
                out_of_memory::forget();
                begin_block(device, address, bytes, call.site);
            } else {
                recorder::observe_free(kPool, address, call.site);
            }
        }
    }
    call.real(block, bytes, allocated, reserved, packed);
}

// An allocation is given up. If the driver refused it, that was recorded already.
void report_out_of_memory(const Call<void(std::int64_t, std::size_t, std::size_t, PackedDevice)>& call,
                          std::int64_t bytes, std::size_t allocated, std::size_t reserved, PackedDevice packed) {
    const format::Device device = device_of(packed);
    if (device != format::kDeviceNone && !out_of_memory::give_up()) {
        const KeepErrno keep_errno;
        totals.set(format::index_of(device), static_cast<std::int64_t>(reserved));
        record_usage_now(device);
        out_of_memory::record({"torch.cuda", device, static_cast<std::uint64_t>(bytes), 0}, call.site);
        out_of_memory::give_up();
    }
    call.real(bytes, allocated, reserved, packed);
}

// cudaMallocAsync as torch's allocator (backend:cudaMallocAsync): it tells the profiler nothing.
// The block is the allocator's, and not the driver's besides: the driver's hook does not stand outermost.
int allocate_async(const Call<int(void**, std::size_t, void*)>& call, void** memory, std::size_t bytes, void* stream) {
    const DriverCall under_way;
    const int result = call.real(memory, bytes, stream);
    if (result == kSuccess && memory != nullptr && *memory != nullptr) {
        const format::Device device = device_of_runtime(current_device());
        if (device != format::kDeviceNone && recorder::observes(device)) {
            const KeepErrno keep_errno;
            out_of_memory::forget();
            begin_block(device, reinterpret_cast<std::uint64_t>(*memory), static_cast<std::int64_t>(bytes), call.site);
        }
    } else if (result == kOutOfMemory) {
        const format::Device device = device_of_runtime(current_device());
        record_usage_now(device);
        out_of_memory::record({"cudaMallocAsync", device, bytes, 0}, call.site);
    }
    return result;
}

int free_async(const Call<int(void*, void*)>& call, void* memory, void* stream) {
    recorder::observe_free(kPool, reinterpret_cast<std::uint64_t>(memory), call.site);
    return call.real(memory, stream);
}

constexpr const char* kLibrary = "libc10_cuda.so";
constexpr const char* kSource = "torch_cuda";

constexpr Hook kHookList[] = {
    hook<&report_memory>(kLibrary, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", kSource, true),
    hook<&report_out_of_memory>(kLibrary, "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", kSource),
    hook<&allocate_async>(kLibrary, "cudaMallocAsync", kSource),
    hook<&free_async>(kLibrary, "cudaFreeAsync", kSource),
};

}  // namespace

const HookTable kCachingAllocatorHooks = table_of(kHookList);

bool pool_of(format::Device device, PoolBytes& bytes) noexcept {
    if (!has_told.load(std::memory_order_relaxed)) {
        return false;
    }
    bytes.reserved = static_cast<std::uint64_t>(totals.get(format::index_of(device)));
    bytes.allocated = recorder::live_bytes(kPool, device);
    return true;
}

void record_reserved_again(const RecordingScope& scope) noexcept {
    if (has_told.load(std::memory_order_relaxed)) {
        totals.write_again(scope);
    }
}

}  // namespace msmemscope::cuda
