#include "sources/ascend/hal/hal.h"

#include <atomic>
#include <cstring>
#include <iterator>

#include "core/observe/blocks.h"
#include "core/observe/out_of_memory.h"
#include "core/writer/keep_errno.h"
#include "core/writer/live_blocks.h"
#include "core/writer/process_memory.h"
#include "core/writer/recorder.h"
#include "core/writer/texts.h"
#include "sources/ascend/hal/device_usage.h"
#include "sources/ascend/hal/pinned_memory.h"
#include "sources/ascend/npu.h"
#include "sources/torch_cpu/host_memory.h"

namespace msmemscope::hal {

namespace {

constexpr int kDriverOutOfMemory = 6;

constexpr std::uint32_t kRegisterPinned = 0x10000000;

// Numbers of sets of attributes, one place for each combination, and the last one for pinned memory.
constexpr unsigned kModules = 256;
constexpr unsigned kPageTypes = 3;
constexpr unsigned kAllocationTypes = 2;
constexpr unsigned kPinnedPlace = kModules * kPageTypes * kAllocationTypes;
std::atomic<std::uint32_t> attribute_numbers[kPinnedPlace + 1];

// A driver function may be made of another: the outermost call is the one that the program knows.
__attribute__((tls_model("initial-exec"))) __thread unsigned calls_under_way = 0;

class CallUnderWay {
public:
    CallUnderWay() noexcept { ++calls_under_way; }
    ~CallUnderWay() { --calls_under_way; }
    CallUnderWay(const CallUnderWay&) = delete;
    CallUnderWay& operator=(const CallUnderWay&) = delete;
    static bool is_outermost() noexcept { return calls_under_way == 1; }
};

__attribute__((tls_model("initial-exec"))) __thread std::uint64_t new_pinned = 0;

// Pinned memory is the host's, and taken for a device.
bool observes_pinned() noexcept {
    const DeviceSelection& devices = recorder::settings().devices;
    return devices.cpu || (devices.kinds >> static_cast<unsigned>(format::DeviceKind::kNpu) & 1U) != 0;
}

std::uint64_t number_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

unsigned place_of(const Allocation& allocation) noexcept {
    const unsigned module = allocation.module < kModules ? allocation.module : kModules - 1;
    return (module * kPageTypes + static_cast<unsigned>(allocation.page_type)) * kAllocationTypes +
           static_cast<unsigned>(allocation.type);
}

format::Attribute attribute(format::AttributeKey key, const char* text) noexcept {
    return {key, format::ValueKind::kString, 0, texts::number_of(text, std::strlen(text))};
}

std::uint32_t number_of_attributes(const Allocation& allocation) noexcept {
    const format::Attribute pairs[] = {
        attribute(format::AttributeKey::kModule, module_name(allocation.module)),
        attribute(format::AttributeKey::kPageType, page_type_name(allocation.page_type)),
        attribute(format::AttributeKey::kAllocationKind, allocation_type_name(allocation.type)),
    };
    return texts::number_of_attributes(pairs, std::size(pairs));
}

std::uint32_t number_of_pinned() noexcept {
    const format::Attribute pinned{format::AttributeKey::kIsPinned, format::ValueKind::kNumber, 0, 1};
    return texts::number_of_attributes(&pinned, 1);
}

std::uint32_t attributes_of(unsigned place, const Allocation* allocation) noexcept {
    std::uint32_t number = attribute_numbers[place].load(std::memory_order_relaxed);
    if (number == 0) {
        number = allocation != nullptr ? number_of_attributes(*allocation) : number_of_pinned();
        attribute_numbers[place].store(number, std::memory_order_relaxed);
    }
    return number;
}

void note_pinned(const void* address, std::uint64_t bytes, const CallSite& site) noexcept {
    const KeepErrno keep_errno;
    new_pinned = number_of(address);
    if (recorder::is_selected(kSelectAlloc)) {
        torch_cpu::record_host_usage();
    }
    recorder::observe_allocation(format::Pool::kHal, format::kDeviceCpu, number_of(address), bytes, site,
                                 attributes_of(kPinnedPlace, nullptr));
}

void note_allocation(const Allocation& allocation, const void* address, std::uint64_t bytes,
                     const CallSite& site) noexcept {
    if (allocation.on_host) {
        if (observes_pinned()) {
            note_pinned(address, bytes, site);
        }
        return;
    }
    if (!recorder::observes(npu(static_cast<int>(allocation.device)))) {
        return;
    }
    const KeepErrno keep_errno;
    if (recorder::is_selected(kSelectAlloc)) {
        record_device_usage(allocation.device);  // before the MALLOC, which shows what is in use with it
    }
    recorder::observe_allocation(format::Pool::kHal, npu(static_cast<int>(allocation.device)), number_of(address),
                                 bytes, site, attributes_of(place_of(allocation), &allocation));
}

// Memory of an emulated device lies in the process and counts as its resident memory. Asked once.
void note_emulated_memory(const void* address) noexcept {
    static std::atomic<bool> is_asked{false};
    if (is_asked.load(std::memory_order_relaxed) || is_asked.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    if (is_anonymous(number_of(address))) {
        recorder::note_fact("device_memory", "emulated");
    }
}

void note_out_of_memory(const char* function, const Allocation& allocation, std::uint64_t bytes, std::uint64_t flag,
                        const CallSite& site) noexcept {
    if (allocation.on_host) {
        out_of_memory::record({function, format::kDeviceCpu, bytes, flag}, site);
    } else if (observes_npu(static_cast<int>(allocation.device))) {
        out_of_memory::record({function, npu(static_cast<int>(allocation.device)), bytes, flag}, site);
    }
}

// The usage after the block is gone stands in front of its FREE, which shows it.
void note_usage_after_end(const recorder::EndingBlock& ending) noexcept {
    if (ending.number == 0 || !recorder::is_selected(kSelectFree)) {
        return;
    }
    const RecordPlace place{ending.number, ending.event.timestamp_ns};
    if (ending.block.device == format::kDeviceCpu) {
        torch_cpu::record_host_usage(place);
    } else {
        record_device_usage(static_cast<unsigned>(format::index_of(ending.block.device)), place);
    }
}

// The end of a block gets its place among the records before the real call. Right after that call another thread may be
// given the address.
int end_block(const Call<int(void*)>& call, void* address) noexcept {
    recorder::EndingBlock ending{};
    const bool known = recorder::begin_free(format::Pool::kHal, number_of(address), call.site, ending);
    int result = 0;
    {
        const CallUnderWay under_way;
        result = call.real(address);
    }
    if (known) {
        const KeepErrno keep_errno;
        if (result == 0) {
            note_usage_after_end(ending);
            recorder::finish_free(ending);
        } else {
            recorder::undo_free(ending);
        }
    }
    return result;
}

int alloc(const Call<int(void**, unsigned long long, unsigned long long)>& call, void** pointer,
          unsigned long long size, unsigned long long flag) {
    const CallUnderWay under_way;
    const int result = call.real(pointer, size, flag);
    if (result == 0 && under_way.is_outermost() && pointer != nullptr && *pointer != nullptr) {
        out_of_memory::forget();
        const Allocation allocation = decode_flag(flag);
        note_allocation(allocation, *pointer, size, call.site);
        if (!allocation.on_host) {
            note_emulated_memory(*pointer);
        }
    } else if (result == kDriverOutOfMemory && under_way.is_outermost()) {
        note_out_of_memory("halMemAlloc", decode_flag(flag), size, flag, call.site);
    }
    return result;
}

int free(const Call<int(void*)>& call, void* pointer) { return end_block(call, pointer); }

int create(const Call<int(void**, std::size_t, const MemoryProperties*, std::uint64_t)>& call, void** handle,
           std::size_t size, const MemoryProperties* properties, std::uint64_t flag) {
    const CallUnderWay under_way;
    const int result = call.real(handle, size, properties, flag);
    if (result == 0 && under_way.is_outermost() && handle != nullptr && *handle != nullptr && properties != nullptr) {
        out_of_memory::forget();
        note_allocation(decode_properties(*properties), *handle, size, call.site);
    } else if (result == kDriverOutOfMemory && under_way.is_outermost() && properties != nullptr) {
        note_out_of_memory("halMemCreate", decode_properties(*properties), size, flag, call.site);
    }
    return result;
}

int release(const Call<int(void*)>& call, void* handle) { return end_block(call, handle); }

int map(const Call<int(void*, std::size_t, std::size_t, void*, std::uint64_t)>& call, void* pointer, std::size_t size,
        std::size_t offset, void* handle, std::uint64_t flag) {
    const int result = call.real(pointer, size, offset, handle, flag);
    if (result == 0) {
        const KeepErrno keep_errno;
        recorder::note_mapped(number_of(handle), number_of(pointer), size);
    }
    return result;
}

int unmap(const Call<int(void*)>& call, void* pointer) {
    const int result = call.real(pointer);
    if (result == 0) {
        const KeepErrno keep_errno;
        recorder::note_unmapped(number_of(pointer));
    }
    return result;
}

int register_host(const Call<int(void*, std::uint64_t, std::uint32_t)>& call, void* pointer, std::uint64_t size,
                  std::uint32_t flag) {
    const CallUnderWay under_way;
    const int result = call.real(pointer, size, flag);
    LiveBlock block{};
    // A CPU tensor that becomes pinned is recorded already.
    if (result == 0 && under_way.is_outermost() && pointer != nullptr && (flag & kRegisterPinned) != 0 &&
        observes_pinned() && !recorder::find_live_block(format::Pool::kHost, number_of(pointer), block) &&
        !recorder::find_live_block(format::Pool::kHal, number_of(pointer), block)) {
        note_pinned(pointer, size, call.site);
    }
    return result;
}

int unregister_host(const Call<int(void*)>& call, void* pointer) { return end_block(call, pointer); }

constexpr Hook kHookList[] = {
    hook<&alloc>(nullptr, "halMemAlloc", "hal"),
    hook<&free>(nullptr, "halMemFree", "hal"),
    hook<&create>(nullptr, "halMemCreate", "hal"),
    hook<&release>(nullptr, "halMemRelease", "hal"),
    hook<&map>(nullptr, "halMemMap", "hal"),
    hook<&unmap>(nullptr, "halMemUnmap", "hal"),
    hook<&register_host>(nullptr, "aclrtHostRegisterV2", "hal"),
    hook<&unregister_host>(nullptr, "aclrtHostUnregister", "hal"),
    // The same two under their names below libascendcl.so. A program that looks their names up (torch_npu) does not
    // call them through its own GOT.
    hook<&register_host>(nullptr, "aclrtHostRegisterV2Impl", "hal"),
    hook<&unregister_host>(nullptr, "aclrtHostUnregisterImpl", "hal"),
};

}  // namespace

std::uint64_t take_new_pinned() noexcept {
    const std::uint64_t address = new_pinned;
    new_pinned = 0;
    return address;
}

void note_requested(std::uint64_t address, std::uint64_t bytes) noexcept {
    recorder::note_requested(format::Pool::kHal, address, bytes);
}

const HookTable kHooks = table_of(kHookList);

}  // namespace msmemscope::hal
