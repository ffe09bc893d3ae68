// A tiny memory tool, as outsiders write them: it interposes the driver's memory functions, is injected through mstx,
// and keeps running sums. Built as libascend_kernel_hook.so, the name that makes torch_npu report its pools.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace {

struct VirtualRange {  // 24 bytes
    uint32_t device;
    const void* pointer;
    uint64_t size;
};
struct HeapDescription {  // usage and type are not filled in by torch_npu
    int32_t usage;
    int32_t type;
    const VirtualRange* range;
};
struct RegionsRegister {  // only count and ranges are filled in
    void* heap;
    int32_t type;
    size_t count;
    const VirtualRange* ranges;
    void** handles;
};
struct RegionReference {
    int32_t kind;
    const void* pointer;
};
struct RegionsUnregister {
    size_t count;
    const RegionReference* references;
};

struct Pool {
    uint64_t reserved[64];   // as the last heap message said
    uint64_t allocated[64];  // the sum of the live regions
    uint64_t registered;     // calls
    std::map<const void*, VirtualRange> regions;
};

std::recursive_mutex guard;
Pool caching, workspace;
uint64_t driver_bytes[64];
std::map<void*, std::pair<unsigned, uint64_t>> driver_blocks;
std::string marks;

Pool* pool_of(void* domain) {
    return domain == &caching || domain == &workspace ? static_cast<Pool*>(domain) : nullptr;
}

void* domain_create(const char* name) {
    if (std::strcmp(name, "ptaCaching") == 0) return &caching;
    return std::strcmp(name, "ptaWorkspace") == 0 ? &workspace : nullptr;
}

void* heap_register(void* domain, const HeapDescription* heap) {
    const std::lock_guard<std::recursive_mutex> lock(guard);
    if (Pool* pool = pool_of(domain)) pool->reserved[heap->range->device] = heap->range->size;
    return nullptr;
}

void regions_register(void* domain, const RegionsRegister* batch) {
    const std::lock_guard<std::recursive_mutex> lock(guard);
    Pool* pool = pool_of(domain);
    for (size_t index = 0; pool != nullptr && index < batch->count; ++index) {
        const VirtualRange& range = batch->ranges[index];
        ++pool->registered;
        pool->regions[range.pointer] = range;
        pool->allocated[range.device] += range.size;
    }
}

void regions_unregister(void* domain, const RegionsUnregister* batch) {
    const std::lock_guard<std::recursive_mutex> lock(guard);
    Pool* pool = pool_of(domain);
    for (size_t index = 0; pool != nullptr && index < batch->count; ++index) {
        const auto place = pool->regions.find(batch->references[index].pointer);
        if (place == pool->regions.end()) continue;
        pool->allocated[place->second.device] -= place->second.size;
        pool->regions.erase(place);
    }
}

void mark(const char* message, void*) {
    const std::lock_guard<std::recursive_mutex> lock(guard);
    marks += std::string(message) + "\n";
}

uint64_t ranges = 0;
uint64_t range_start(const char* message, void*) {
    mark(message, nullptr);
    return ++ranges;
}
void range_end(uint64_t) {}
void tool_id(uint64_t* id) { *id = 0x1003; }

template <typename Function>
Function real(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int InitInjectionMstx(int (*get_table)(int, void****, unsigned*)) {
    const auto put = [get_table](int module, unsigned function, auto* target) {
        void*** table = nullptr;
        unsigned size = 0;
        if (get_table(module, &table, &size) != 0 || function >= size) return false;
        *table[function] = reinterpret_cast<void*>(target);
        return true;
    };
    const bool placed = put(1, 1, &mark) && put(1, 2, &range_start) && put(1, 3, &range_end) && put(1, 4, &tool_id) &&
                        put(2, 1, &domain_create) && put(3, 1, &heap_register) && put(3, 3, &regions_register) &&
                        put(3, 4, &regions_unregister);
    return placed ? 0 : 1;
}

EXPORTED int halMemAlloc(void** pointer, unsigned long long size, unsigned long long flag) {
    static const auto inner = real<int (*)(void**, unsigned long long, unsigned long long)>("halMemAllocInner");
    const int status = inner(pointer, size, flag);
    const bool application = (flag >> 56) == 33 && ((flag >> 10) & 0xf) == 1;
    if (status == 0 && application) {
        const std::lock_guard<std::recursive_mutex> lock(guard);
        driver_blocks[*pointer] = {flag & 0x3ff, size};
        driver_bytes[flag & 0x3ff] += size;
    }
    return status;
}

EXPORTED int halMemFree(void* pointer) {
    static const auto inner = real<int (*)(void*)>("halMemFreeInner");
    const std::lock_guard<std::recursive_mutex> lock(guard);
    const auto place = driver_blocks.find(pointer);
    if (place != driver_blocks.end()) {
        driver_bytes[place->second.first] -= place->second.second;
        driver_blocks.erase(place);
    }
    return inner(pointer);
}

// For the program, through ctypes: what the tool has seen.
EXPORTED uint64_t tool_caching_allocated(int device) { return caching.allocated[device]; }
EXPORTED uint64_t tool_caching_reserved(int device) { return caching.reserved[device]; }
EXPORTED uint64_t tool_workspace_allocated(int device) { return workspace.allocated[device]; }
EXPORTED uint64_t tool_workspace_reserved(int device) { return workspace.reserved[device]; }
EXPORTED uint64_t tool_workspace_registered() { return workspace.registered; }
EXPORTED uint64_t tool_driver_bytes(int device) { return driver_bytes[device]; }
EXPORTED const char* tool_marks() { return marks.c_str(); }
