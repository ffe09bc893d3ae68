#include "sources/ascend/mstx/atb_handles.h"

#include <atomic>
#include <cstddef>

#include "core/format/record.h"

namespace msmemscope::mstx {
namespace {

constexpr std::size_t kHeaps = 256;
constexpr std::size_t kRegions = 4096;

// In turn: even while free, odd while in use. Whoever raises it owns the slot's other fields for that turn.
using Turn = std::atomic<std::uint64_t>;

struct HeapSlot {
    Turn turn;
    std::atomic<void*> address;
    std::atomic<std::uint64_t> size;
    std::atomic<int> device;
};
HeapSlot heaps[kHeaps];
std::atomic<std::int64_t> heaps_of_device[format::kDevicesPerKind];

struct RegionSlot {
    Turn turn;
    std::atomic<void*> address;
};
RegionSlot regions[kRegions];
std::atomic<std::uint64_t> next_region{0};

// A handle is its slot's turn and its slot's number; not null, because the turn is odd.
constexpr unsigned kSlotBits = 12;
static_assert(kRegions == std::size_t{1} << kSlotBits);
// For regions that are not followed; no slot is ever at turn 0.
void* const no_slot = reinterpret_cast<void*>(std::uintptr_t{1});

}  // namespace

bool remember_heap(const Heap& heap, Heap& replaced) noexcept {
    replaced = Heap{};
    forget_heap(heap.address, replaced);
    for (HeapSlot& slot : heaps) {
        std::uint64_t turn = slot.turn.load(std::memory_order_relaxed);
        if (turn % 2 == 0 && slot.turn.compare_exchange_strong(turn, turn + 1, std::memory_order_acquire)) {
            slot.size.store(heap.size, std::memory_order_relaxed);
            slot.device.store(heap.device, std::memory_order_relaxed);
            slot.address.store(heap.address, std::memory_order_release);
            heaps_of_device[heap.device].fetch_add(1, std::memory_order_relaxed);
            return true;
        }
    }
    return false;
}

bool forget_heap(const void* address, Heap& heap) noexcept {
    if (address == nullptr) {
        return false;
    }
    for (HeapSlot& slot : heaps) {
        void* found = slot.address.load(std::memory_order_acquire);
        if (found != address) {
            continue;
        }
        heap = Heap{found, slot.size.load(std::memory_order_relaxed), slot.device.load(std::memory_order_relaxed)};
        if (slot.address.compare_exchange_strong(found, nullptr, std::memory_order_acq_rel)) {
            slot.turn.fetch_add(1, std::memory_order_release);
            heaps_of_device[heap.device].fetch_sub(1, std::memory_order_relaxed);
            return true;
        }
    }
    heap = Heap{};
    return false;
}

bool has_heap(int device) noexcept { return heaps_of_device[device].load(std::memory_order_relaxed) > 0; }

void* new_handle(void* address) noexcept {
    if (address == nullptr) {
        return no_slot;
    }
    for (std::size_t attempt = 0; attempt < kRegions; ++attempt) {
        const std::size_t number = next_region.fetch_add(1, std::memory_order_relaxed) % kRegions;
        RegionSlot& slot = regions[number];
        std::uint64_t turn = slot.turn.load(std::memory_order_relaxed);
        if (turn % 2 == 0 && slot.turn.compare_exchange_strong(turn, turn + 1, std::memory_order_acquire)) {
            slot.address.store(address, std::memory_order_relaxed);
            return reinterpret_cast<void*>(((turn + 1) << kSlotBits) | number);
        }
    }
    return address;  // beyond the table
}

void* take_handle(void* handle) noexcept {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    RegionSlot& slot = regions[value % kRegions];
    std::uint64_t turn = value >> kSlotBits;
    if (turn % 2 == 0 || slot.turn.load(std::memory_order_acquire) != turn) {
        return nullptr;
    }
    void* const address = slot.address.load(std::memory_order_relaxed);
    return slot.turn.compare_exchange_strong(turn, turn + 1, std::memory_order_acq_rel) ? address : nullptr;
}

void retire_handles_of(const void* address) noexcept {
    for (RegionSlot& slot : regions) {
        std::uint64_t turn = slot.turn.load(std::memory_order_acquire);
        if (turn % 2 == 1 && slot.address.load(std::memory_order_relaxed) == address) {
            slot.turn.compare_exchange_strong(turn, turn + 1, std::memory_order_acq_rel);
        }
    }
}

}  // namespace msmemscope::mstx
