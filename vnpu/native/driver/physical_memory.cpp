// Physical memory apart from its address: create and release, reserve addresses, map and unmap.
//
// All physical memory of one device lies in one memory file per process, each handle at an offset of its own; a file
// per handle would take thousands of descriptors. The same handle mapped twice is the same memory, as on the device,
// and another process of this machine can open the file and map the offset.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>

#include "accounting.h"
#include "addresses.h"
#include "driver.h"
#include "settings.h"

struct drv_mem_handle_t {
    int file;         // of this process
    uint64_t offset;  // into the file
    uint64_t size;
    uint32_t device;
    uint32_t module;
    uint32_t maps;
    bool on_device;
    bool imported;  // the exporting process holds the memory, and its device's account
    bool released;
};

namespace virtual_npu {
namespace {

constexpr off_t kFileBytes = off_t{1} << 46;  // sparse: only written pages exist

// An exported handle as one number: where another process finds it.
constexpr unsigned kPidBits = 24;
constexpr unsigned kFileBits = 12;
constexpr unsigned kOffsetBits = 28;  // in granules

struct MemoryFile {
    int descriptor = -1;
    uint64_t end = 0;                               // offsets from here on were never given out
    std::multimap<uint64_t, uint64_t> free_ranges;  // size to offset
};

struct Mapping {
    uint64_t size;
    drv_mem_handle_t* handle;
};

std::mutex guard;
std::map<void*, uint64_t>& reservations() {
    static auto* table = new std::map<void*, uint64_t>();
    return *table;
}
std::map<void*, Mapping>& mappings() {
    static auto* table = new std::map<void*, Mapping>();
    return *table;
}
MemoryFile& memory_file(uint32_t device) {
    static auto* files = new MemoryFile[kMostDevices];
    return files[device];
}

// With the guard held.
bool place_in_file(uint32_t device, uint64_t size, drv_mem_handle_t* handle) {
    MemoryFile& file = memory_file(device);
    if (file.descriptor < 0) {
        char name[32];
        std::snprintf(name, sizeof name, "virtual_npu_device_%u", device);
        const int descriptor = memfd_create(name, MFD_CLOEXEC);
        if (descriptor < 0) return false;
        if (ftruncate(descriptor, kFileBytes) != 0) {
            close(descriptor);
            return false;
        }
        file.descriptor = descriptor;
    }
    handle->file = file.descriptor;
    const auto reusable = file.free_ranges.find(size);
    if (reusable != file.free_ranges.end()) {
        handle->offset = reusable->second;
        file.free_ranges.erase(reusable);
    } else {
        handle->offset = file.end;
        file.end += size;
    }
    return true;
}

// With the guard held. On hardware too, memory lives until it is both released and unmapped.
void end_if_unused(drv_mem_handle_t* handle) {
    if (!handle->released || handle->maps > 0) return;
    if (handle->imported) {
        close(handle->file);
    } else {
        // The pages go back to the machine; a range that could not be emptied keeps its pages until the process ends.
        if (fallocate(handle->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle->offset),
                      static_cast<off_t>(handle->size)) == 0) {
            memory_file(handle->device).free_ranges.emplace(handle->size, handle->offset);
        }
        if (handle->on_device) give_memory_back(handle->device, handle->module, handle->size);
    }
    delete handle;
}

drvError_t create(drv_mem_handle_t** handle, size_t size, const drv_mem_prop* properties) {
    if (handle == nullptr || properties == nullptr || size == 0 || size % kGranule != 0) return DRV_ERROR_INVALID_VALUE;
    const bool on_device = properties->side == 1;
    const uint32_t device = properties->devid;
    if (device >= settings().devices) return DRV_ERROR_INVALID_VALUE;
    if (on_device && !take_memory(device, properties->module_id, size)) return DRV_ERROR_OUT_OF_MEMORY;
    auto* made = new drv_mem_handle_t{-1, 0, size, device, properties->module_id, 0, on_device, false, false};
    const std::lock_guard<std::mutex> lock(guard);
    if (!place_in_file(device, size, made)) {
        if (on_device) give_memory_back(device, properties->module_id, size);
        delete made;
        return DRV_ERROR_OUT_OF_MEMORY;
    }
    *handle = made;
    return DRV_ERROR_NONE;
}

drvError_t release(drv_mem_handle_t* handle) {
    if (handle == nullptr) return DRV_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(guard);
    if (handle->released) return DRV_ERROR_INVALID_VALUE;
    handle->released = true;
    end_if_unused(handle);
    return DRV_ERROR_NONE;
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED drvError_t halMemCreateInner(drv_mem_handle_t** handle, size_t size, const drv_mem_prop* properties,
                                      uint64_t) {
    return virtual_npu::create(handle, size, properties);
}
EXPORTED drvError_t halMemCreate(drv_mem_handle_t** handle, size_t size, const drv_mem_prop* properties, uint64_t) {
    return virtual_npu::create(handle, size, properties);
}
EXPORTED drvError_t halMemReleaseInner(drv_mem_handle_t* handle) { return virtual_npu::release(handle); }
EXPORTED drvError_t halMemRelease(drv_mem_handle_t* handle) { return virtual_npu::release(handle); }

EXPORTED drvError_t halMemAddressReserve(void** pointer, size_t size, size_t, void*, uint64_t) {
    if (pointer == nullptr || size == 0) return DRV_ERROR_INVALID_VALUE;
    void* place = virtual_npu::take_addresses(size, PROT_NONE);
    if (place == nullptr) return DRV_ERROR_OUT_OF_MEMORY;
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    virtual_npu::reservations()[place] = size;
    *pointer = place;
    return DRV_ERROR_NONE;
}

EXPORTED drvError_t halMemAddressFree(void* pointer) {
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    const auto place = virtual_npu::reservations().find(pointer);
    if (place == virtual_npu::reservations().end()) return DRV_ERROR_INVALID_VALUE;
    virtual_npu::give_addresses_back(pointer, place->second);
    virtual_npu::reservations().erase(place);
    return DRV_ERROR_NONE;
}

EXPORTED drvError_t halMemMap(void* pointer, size_t size, size_t offset, drv_mem_handle_t* handle, uint64_t) {
    if (pointer == nullptr || handle == nullptr || offset > handle->size || size > handle->size - offset) {
        return DRV_ERROR_INVALID_VALUE;
    }
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    void* place = mmap(pointer, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, handle->file,
                       static_cast<off_t>(handle->offset + offset));
    if (place == MAP_FAILED) return DRV_ERROR_OUT_OF_MEMORY;
    ++handle->maps;
    virtual_npu::mappings()[pointer] = {size, handle};
    return DRV_ERROR_NONE;
}

EXPORTED drvError_t halMemUnmap(void* pointer) {
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    const auto place = virtual_npu::mappings().find(pointer);
    if (place == virtual_npu::mappings().end()) return DRV_ERROR_INVALID_VALUE;
    const virtual_npu::Mapping mapping = place->second;
    virtual_npu::mappings().erase(place);
    // The address stays reserved, and touching it is a fault again.
    mmap(pointer, mapping.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    --mapping.handle->maps;
    virtual_npu::end_if_unused(mapping.handle);
    return DRV_ERROR_NONE;
}

EXPORTED uint64_t virtual_npu_export_memory(drv_mem_handle_t* handle) {
    using namespace virtual_npu;
    if (handle == nullptr || handle->imported) return 0;
    const auto pid = static_cast<uint64_t>(getpid());
    const auto file = static_cast<uint64_t>(handle->file);
    const uint64_t granule = handle->offset / kGranule;
    if (pid >> kPidBits != 0 || file >> kFileBits != 0 || granule >> kOffsetBits != 0) return 0;
    return (pid << (kFileBits + kOffsetBits)) | (file << kOffsetBits) | granule;
}

EXPORTED drvError_t virtual_npu_import_memory(uint64_t shareable, uint32_t device, drv_mem_handle_t** handle) {
    using namespace virtual_npu;
    const uint64_t granule = shareable & ((uint64_t{1} << kOffsetBits) - 1);
    const uint64_t file = (shareable >> kOffsetBits) & ((uint64_t{1} << kFileBits) - 1);
    const uint64_t pid = shareable >> (kFileBits + kOffsetBits);
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%llu/fd/%llu", static_cast<unsigned long long>(pid),
                  static_cast<unsigned long long>(file));
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return DRV_ERROR_INVALID_VALUE;
    // The size is not part of the number: whoever maps it says how much, and the file is large enough for any.
    *handle = new drv_mem_handle_t{descriptor,
                                   granule * kGranule,
                                   static_cast<uint64_t>(kFileBytes) - granule * kGranule,
                                   device,
                                   0,
                                   0,
                                   true,
                                   true,
                                   false};
    return DRV_ERROR_NONE;
}
