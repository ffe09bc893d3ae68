#include "sources/ascend/mstx/pools.h"

#include <atomic>
#include <cstdio>
#include <cstring>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "sources/ascend/acl/visible_devices.h"
#include "sources/ascend/mstx/atb_handles.h"
#include "sources/ascend/npu.h"
#include "sources/ascend/torch_npu/allocator_trace.h"
#include "sources/pool_totals.h"

namespace msmemscope::mstx {
namespace {

enum class Kind : std::uint8_t {
    // A heap is the message "so much is reserved now", a region a block.
    kTotals,
    // Likewise, but a region's size is that of all blocks in use.
    kTotalsAndSums,
    // Heaps are heaps; regions exist in them, and have handles.
    kHeaps,
};

constexpr std::size_t kDevices = format::kDevicesPerKind;

struct Domain {
    const char* name;
    format::Pool pool;
    Kind kind;
    std::atomic<bool> is_known;  // somebody has asked for it
    std::atomic<bool> is_told_by_others;
    // Totals as last told, by the caller's numbers of devices.
    std::atomic<std::uint64_t> reported[kDevices];
    PoolTotals reserved;
    // Bytes of the live blocks; kTotalsAndSums only.
    std::atomic<std::int64_t> used[kDevices];
};

constexpr PoolTotals totals_of(format::Pool pool) { return {pool, format::DeviceKind::kNpu}; }

// The address of an entry is the handle that the caller gets.
Domain domains[] = {
    {"ptaCaching", format::Pool::kPta, Kind::kTotals, {}, {}, {}, totals_of(format::Pool::kPta), {}},
    {"ptaWorkspace",
     format::Pool::kPtaWorkspace,
     Kind::kTotalsAndSums,
     {},
     {},
     {},
     totals_of(format::Pool::kPtaWorkspace),
     {}},
    {"mindsporeMemPool", format::Pool::kMindSpore, Kind::kTotals, {}, {}, {}, totals_of(format::Pool::kMindSpore), {}},
    {"atb", format::Pool::kAtb, Kind::kHeaps, {}, {}, {}, totals_of(format::Pool::kAtb), {}},
};

// The earlier name of ptaCaching in torch_npu.
constexpr const char* kOldCachingName = "msleaks";

Domain* domain_of(void* handle) noexcept {
    for (Domain& domain : domains) {
        if (handle == &domain) {
            return &domain;
        }
    }
    return nullptr;
}

Domain* domain_of_pool(format::Pool pool) noexcept {
    for (Domain& domain : domains) {
        if (domain.pool == pool) {
            return &domain;
        }
    }
    return nullptr;
}

bool has_totals(const Domain& domain) noexcept {
    return domain.is_known.load(std::memory_order_relaxed) || domain.is_told_by_others.load(std::memory_order_relaxed);
}

// The device of a range if it is observed, else -1.
int observed_device(const VirtualRange& range) noexcept {
    const int device = acl::physical_device(static_cast<std::int8_t>(range.device));
    return observes_npu(device) ? device : -1;
}

// torch_npu tells the total with each block, and it rarely changes.
void report_total(Domain& domain, const VirtualRange& range) noexcept {
    if (range.device >= kDevices || domain.reported[range.device].load(std::memory_order_relaxed) == range.size) {
        return;
    }
    domain.reported[range.device].store(range.size, std::memory_order_relaxed);
    const int device = acl::physical_device(static_cast<int>(range.device));
    if (device >= 0 && static_cast<std::size_t>(device) < kDevices) {
        domain.reserved.set(device, static_cast<std::int64_t>(range.size));
        if (observes_npu(device)) {
            domain.reserved.report(device);
        }
    }
}

// A block of the domain is gone. Unknown addresses are passed over.
void end_block(Domain& domain, void* pointer, const CallSite* site) noexcept {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    if (domain.kind == Kind::kTotalsAndSums) {
        LiveBlock block{};
        if (recorder::find_live_block(domain.pool, address, block) && block.device >= 0) {
            domain.used[format::index_of(block.device)].fetch_sub(static_cast<std::int64_t>(block.size_bytes),
                                                                  std::memory_order_relaxed);
        }
    }
    if (domain.pool == format::Pool::kPta) {
        allocator_trace::block_was_given_back();
    }
    if (site != nullptr) {
        recorder::observe_free(domain.pool, address, *site);
    } else {
        recorder::observe_missed_free(domain.pool, address);
    }
}

void begin_block(Domain& domain, const VirtualRange& range, const CallSite& site) noexcept {
    const auto address = reinterpret_cast<std::uint64_t>(range.address);
    std::uint32_t attributes = 0;
    if (domain.pool == format::Pool::kPta) {
        allocator_trace::block_was_reported(address, range.size);
        attributes = allocator_trace::attributes_of_block(address);
    }
    const int device = observed_device(range);
    if (device < 0 || address == 0) {
        return;
    }
    // The end of a block that is registered again was not told.
    LiveBlock replaced{};
    if (recorder::find_live_block(domain.pool, address, replaced)) {
        end_block(domain, range.address, nullptr);
        if (domain.kind == Kind::kHeaps) {
            retire_handles_of(range.address);
        }
    }
    std::uint64_t bytes = range.size;
    if (domain.kind == Kind::kTotalsAndSums) {
        const auto others = static_cast<std::uint64_t>(domain.used[device].load(std::memory_order_relaxed));
        bytes -= bytes > others ? others : 0;
        domain.used[device].fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    }
    domain.reserved.report(device);
    recorder::observe_allocation(domain.pool, npu(device), address, bytes, site, attributes);
}

void* known(Domain& domain) noexcept {
    if (!domain.is_known.load(std::memory_order_relaxed) &&
        !domain.is_known.exchange(true, std::memory_order_relaxed)) {
        char key[64];
        std::snprintf(key, sizeof(key), "observed.%s", domain.name);
        recorder::note_fact(key, "as its mstx domain");
    }
    return &domain;
}

}  // namespace

void* create_domain(const char* name) {
    if (name == nullptr) {
        return nullptr;
    }
    for (Domain& domain : domains) {
        if (std::strcmp(name, domain.name) == 0) {
            return known(domain);
        }
    }
    return std::strcmp(name, kOldCachingName) == 0 ? known(domains[0]) : nullptr;
}

bool is_domain_known(format::Pool pool) noexcept {
    const Domain* const domain = domain_of_pool(pool);
    return domain != nullptr && domain->is_known.load(std::memory_order_relaxed);
}

void* register_heap(void* handle, const HeapDescription* description) {
    Domain* const domain = domain_of(handle);
    if (domain == nullptr || description == nullptr || description->range == nullptr) {
        return nullptr;
    }
    const VirtualRange& range = *description->range;
    if (domain->kind != Kind::kHeaps) {
        report_total(*domain, range);
        return nullptr;
    }
    const int device = observed_device(range);
    // ATB registers nothing more on this thread if it gets null; an empty heap may lie nowhere.
    void* const heap = range.address != nullptr ? range.address : handle;
    Heap replaced{};
    if (device >= 0) {
        if (remember_heap(Heap{heap, range.size, device}, replaced)) {
            domain->reserved.add(device, static_cast<std::int64_t>(range.size));
        }
        if (replaced.address != nullptr) {
            domain->reserved.add(replaced.device, -static_cast<std::int64_t>(replaced.size));
            domain->reserved.report(replaced.device);
        }
        domain->reserved.report(device);
    }
    return heap;
}

void unregister_heap(void* handle, void* heap_handle) {
    Domain* const domain = domain_of(handle);
    Heap heap{};
    // The other kinds gave no handle that could come back.
    if (domain != nullptr && domain->kind == Kind::kHeaps && forget_heap(heap_handle, heap)) {
        domain->reserved.add(heap.device, -static_cast<std::int64_t>(heap.size));
        domain->reserved.report(heap.device);
    }
}

void register_regions(void* handle, const RegionsRegisterBatch* batch) {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    Domain* const domain = domain_of(handle);
    if (domain == nullptr || batch == nullptr || batch->ranges == nullptr) {
        return;
    }
    for (std::size_t index = 0; index < batch->count; ++index) {
        const VirtualRange& range = batch->ranges[index];
        if (domain->kind != Kind::kHeaps) {
            begin_block(*domain, range, site);
            continue;
        }
        const int device = observed_device(range);
        const bool is_block = range.size != 0 && device >= 0 && has_heap(device);
        if (is_block) {
            begin_block(*domain, range, site);
        }
        if (batch->handles != nullptr) {
            batch->handles[index] = new_handle(is_block ? range.address : nullptr);
        }
    }
}

void unregister_regions(void* handle, const RegionsUnregisterBatch* batch) {
    const CallSite site = MSMEMSCOPE_CALL_SITE();
    Domain* const domain = domain_of(handle);
    if (domain == nullptr || batch == nullptr || batch->references == nullptr) {
        return;
    }
    for (std::size_t index = 0; index < batch->count; ++index) {
        void* const reference = batch->references[index].pointer_or_handle;
        // A region may be named by its address in any domain. No handle is the address of a block.
        void* const address = domain->kind == Kind::kHeaps ? take_handle(reference) : nullptr;
        void* const pointer = address != nullptr ? address : reference;
        if (pointer != nullptr) {
            if (domain->kind == Kind::kHeaps && address == nullptr) {
                retire_handles_of(pointer);
            }
            end_block(*domain, pointer, &site);
        }
    }
}

void set_reserved(format::Pool pool, int device, std::int64_t bytes) noexcept {
    Domain* const domain = domain_of_pool(pool);
    if (domain != nullptr && device >= 0 && static_cast<std::size_t>(device) < kDevices) {
        domain->is_told_by_others.store(true, std::memory_order_relaxed);
        domain->reserved.set(device, bytes);
    }
}

void add_reserved(format::Pool pool, int device, std::int64_t bytes) noexcept {
    Domain* const domain = domain_of_pool(pool);
    if (domain != nullptr && device >= 0 && static_cast<std::size_t>(device) < kDevices) {
        domain->is_told_by_others.store(true, std::memory_order_relaxed);
        domain->reserved.add(device, bytes);
        if (observes_npu(device)) {
            domain->reserved.report(device);
        }
    }
}

void record_reserved_again(const RecordingScope& scope) noexcept {
    for (Domain& domain : domains) {
        if (has_totals(domain)) {
            domain.reserved.write_again(scope);
        }
    }
}

bool reserved_bytes(format::Pool pool, int device, std::uint64_t& bytes) noexcept {
    const Domain* const domain = domain_of_pool(pool);
    if (domain == nullptr || device < 0 || static_cast<std::size_t>(device) >= kDevices || !has_totals(*domain)) {
        return false;
    }
    const std::int64_t reserved = domain->reserved.get(device);
    bytes = reserved > 0 ? static_cast<std::uint64_t>(reserved) : 0;
    return true;
}

}  // namespace msmemscope::mstx
