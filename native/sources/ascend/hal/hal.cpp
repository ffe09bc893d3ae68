#include "sources/ascend/hal/hal.h"

#include <atomic>
#include <cstring>
#include <iterator>

#include "core/observe/blocks.h"
#include "core/observe/out_of_memory.h"
#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "core/writer/texts.h"
#include "sources/ascend/hal/device_usage.h"
#include "sources/ascend/npu.h"
#include "sources/driver_memory.h"

namespace msmemscope::hal {

namespace {

constexpr int kDriverOutOfMemory = 6;

constexpr std::uint32_t kRegisterPinned = 0x10000000;

// Numbers of sets of attributes, one place for each combination.
constexpr unsigned kModules = 256;
constexpr unsigned kPageTypes = 3;
constexpr unsigned kAllocationTypes = 2;
std::atomic<std::uint32_t> attribute_numbers[kModules * kPageTypes * kAllocationTypes];

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

std::uint32_t attributes_of(const Allocation& allocation) noexcept {
    std::atomic<std::uint32_t>& known = attribute_numbers[place_of(allocation)];
    std::uint32_t number = known.load(std::memory_order_relaxed);
    if (number == 0) {
        number = number_of_attributes(allocation);
        known.store(number, std::memory_order_relaxed);
    }
    return number;
}

void note_allocation(const Allocation& allocation, const void* address, std::uint64_t bytes,
                     const CallSite& site) noexcept {
    if (allocation.on_host) {
        driver_memory::note_pinned(address, bytes, site);
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
                                 bytes, site, attributes_of(allocation));
}

void note_out_of_memory(const char* function, const Allocation& allocation, std::uint64_t bytes, std::uint64_t flag,
                        const CallSite& site) noexcept {
    if (allocation.on_host) {
        out_of_memory::record({function, format::kDeviceCpu, bytes, flag}, site);
    } else if (observes_npu(static_cast<int>(allocation.device))) {
        out_of_memory::record({function, npu(static_cast<int>(allocation.device)), bytes, flag}, site);
    }
}

void record_usage(format::Device device, const RecordPlace& place) noexcept {
    record_device_usage(static_cast<unsigned>(format::index_of(device)), place);
}

int end_block(const Call<int(void*)>& call, void* address) noexcept {
    driver_memory::End end(number_of(address), call.site);
    int result = 0;
    {
        const DriverCall under_way;
        result = call.real(address);
    }
    end.finish(result == 0, record_usage);
    return result;
}

int alloc(const Call<int(void**, unsigned long long, unsigned long long)>& call, void** pointer,
          unsigned long long size, unsigned long long flag) {
    const DriverCall under_way;
    const int result = call.real(pointer, size, flag);
    if (result == 0 && under_way.is_outermost() && pointer != nullptr && *pointer != nullptr) {
        out_of_memory::forget();
        const Allocation allocation = decode_flag(flag);
        note_allocation(allocation, *pointer, size, call.site);
        if (!allocation.on_host) {
            driver_memory::note_emulated(*pointer);
        }
    } else if (result == kDriverOutOfMemory && under_way.is_outermost()) {
        note_out_of_memory("halMemAlloc", decode_flag(flag), size, flag, call.site);
    }
    return result;
}

int free(const Call<int(void*)>& call, void* pointer) { return end_block(call, pointer); }

int create(const Call<int(void**, std::size_t, const MemoryProperties*, std::uint64_t)>& call, void** handle,
           std::size_t size, const MemoryProperties* properties, std::uint64_t flag) {
    const DriverCall under_way;
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
    const DriverCall under_way;
    const int result = call.real(pointer, size, flag);
    if (result == 0 && under_way.is_outermost() && pointer != nullptr && (flag & kRegisterPinned) != 0) {
        driver_memory::note_registered(pointer, size, call.site);
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

const HookTable kHooks = table_of(kHookList);

}  // namespace msmemscope::hal
