// halMemAlloc and halMemFree: memory of a device is anonymous memory of the process that is backed by pages only where
// it is written, so that a device can be larger than the machine.
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "accounting.h"
#include "addresses.h"
#include "driver.h"
#include "settings.h"

namespace virtual_npu {
namespace {

struct Block {
    uint64_t requested;
    uint64_t mapped;
    uint32_t device;
    uint32_t module;
    bool on_device;
};

std::mutex guard;
std::map<void*, Block>& blocks() {
    static auto* table = new std::map<void*, Block>();  // never destroyed: freed from other libraries' exit handlers
    return *table;
}

// Of a device where its addresses are; pinned memory of the host is where the machine puts it.
void* map_block(const Block& block) {
    if (!block.on_device) {
        void* place =
            mmap(nullptr, block.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return place == MAP_FAILED ? nullptr : place;
    }
    void* place = take_addresses(block.mapped, PROT_READ | PROT_WRITE);
    // With compute=none little of a block is ever written; a huge page would back two megabytes for one number.
    if (place != nullptr && settings().compute == Compute::kNone) madvise(place, block.mapped, MADV_NOHUGEPAGE);
    return place;
}

drvError_t allocate(void** pointer, uint64_t size, unsigned long long flag) {
    if (pointer == nullptr || size == 0 || size > UINT64_MAX - 2 * kGranule) return DRV_ERROR_INVALID_VALUE;
    Block block{};
    block.requested = size;
    block.mapped = (size + kGranule - 1) & ~(kGranule - 1);
    block.device = static_cast<uint32_t>(flag & kFlagDeviceMask);
    block.module = static_cast<uint32_t>(flag >> kFlagModuleShift);
    block.on_device = ((flag >> kFlagKindShift) & kFlagKindMask) != kKindHost;
    if (block.on_device && block.device >= settings().devices) return DRV_ERROR_INVALID_VALUE;
    if (block.on_device && !take_memory(block.device, block.module, size)) return DRV_ERROR_OUT_OF_MEMORY;
    void* place = map_block(block);
    if (place == nullptr) {
        if (block.on_device) give_memory_back(block.device, block.module, size);
        return DRV_ERROR_OUT_OF_MEMORY;
    }
    const std::lock_guard<std::mutex> lock(guard);
    blocks()[place] = block;
    *pointer = place;
    return DRV_ERROR_NONE;
}

drvError_t release(void* pointer) {
    Block block{};
    {
        const std::lock_guard<std::mutex> lock(guard);
        const auto place = blocks().find(pointer);
        if (place == blocks().end()) return DRV_ERROR_INVALID_VALUE;
        block = place->second;
        blocks().erase(place);
    }
    if (!block.on_device) {
        munmap(pointer, block.mapped);
        return DRV_ERROR_NONE;
    }
    give_addresses_back(pointer, block.mapped);
    give_memory_back(block.device, block.module, block.requested);
    return DRV_ERROR_NONE;
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED drvError_t halMemAllocInner(void** pointer, unsigned long long size, unsigned long long flag) {
    return virtual_npu::allocate(pointer, size, flag);
}
EXPORTED drvError_t halMemAlloc(void** pointer, unsigned long long size, unsigned long long flag) {
    return virtual_npu::allocate(pointer, size, flag);
}
EXPORTED drvError_t halMemFreeInner(void* pointer) { return virtual_npu::release(pointer); }
EXPORTED drvError_t halMemFree(void* pointer) { return virtual_npu::release(pointer); }
