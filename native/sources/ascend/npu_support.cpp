#include "sources/ascend/npu_support.h"

#include <initializer_list>

#include "interpose/patcher.h"
#include "sources/ascend/hal/device_usage.h"
#include "sources/ascend/mstx/pools.h"

namespace msmemscope::ascend {
namespace {

constexpr int kDeviceToHost = 2;  // ACL_MEMCPY_DEVICE_TO_HOST

bool is_npu(format::Device device) noexcept { return format::is_of_kind(device, format::DeviceKind::kNpu); }

bool memory_of(const RecordingScope& scope, format::Device device, MemoryBytes& memory) noexcept {
    return hal::device_memory(scope, static_cast<unsigned>(format::index_of(device)), memory);
}

bool pool_of(format::Device device, PoolBytes& bytes) noexcept {
    for (const format::Pool pool : {format::Pool::kPta, format::Pool::kMindSpore}) {
        if (mstx::reserved_bytes(pool, format::index_of(device), bytes.reserved)) {
            bytes.allocated = recorder::live_bytes(pool, device);
            return true;
        }
    }
    return false;
}

bool copy_to_host(void* target, std::uint64_t source, std::size_t bytes) noexcept {
    using Copy = int (*)(void*, std::size_t, const void*, std::size_t, int);
    static const auto copy = reinterpret_cast<Copy>(find_function("aclrtMemcpy"));
    return copy != nullptr && copy(target, bytes, reinterpret_cast<const void*>(source), bytes, kDeviceToHost) == 0;
}

void synchronise() noexcept {
    const auto synchronise_device = reinterpret_cast<int (*)()>(find_function("aclrtSynchronizeDevice"));
    if (synchronise_device != nullptr) {
        synchronise_device();
    }
}

void record_figures(const RecordingScope& scope) noexcept {
    hal::record_usage_again(scope);
    mstx::record_reserved_again(scope);
}

}  // namespace

const DeviceSupport kNpuSupport = {
    is_npu, hal::prepare_device_memory, memory_of, pool_of, nullptr, copy_to_host, record_figures, synchronise,
    nullptr};

}  // namespace msmemscope::ascend
