// The mstx interface as its callers were compiled: numbers of functions, and the layouts that they pass.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::mstx {

using Function = void (*)();
// A table's entries point at the caller's function pointers; entry 0 and the last one are null.
using FunctionTable = Function**;
// Hands out one module's table and the number of its entries without the last; 0 is success.
using TableGetter = int (*)(int module, FunctionTable* table, unsigned* size);

enum Module : int { kCore = 1, kDomain = 2, kMemory = 3 };

enum CoreFunction : unsigned { kMark = 1, kRangeStart = 2, kRangeEnd = 3, kGetToolId = 4 };
enum DomainFunction : unsigned {
    kDomainCreate = 1,
    kDomainDestroy = 2,
    kDomainMark = 3,
    kDomainRangeStart = 4,
    kDomainRangeEnd = 5,
};
enum MemoryFunction : unsigned {
    kHeapRegister = 1,
    kHeapUnregister = 2,
    kRegionsRegister = 3,
    kRegionsUnregister = 4,
    kPermissionsAssign = 5,
};

// Which tool we say that we are: the number that mstx has for a memory tool.
inline constexpr std::uint64_t kToolId = 0x1003;

// Fields marked "garbage" are not initialised by some callers and must not be looked at.
struct VirtualRange {
    std::uint32_t device;
    void* address;
    std::uint64_t size;
};
struct HeapDescription {
    std::int32_t usage;  // garbage
    std::int32_t type;   // garbage
    const VirtualRange* range;
};
struct RegionsRegisterBatch {
    void* heap;                // garbage
    std::int32_t region_type;  // garbage
    std::size_t count;
    const VirtualRange* ranges;
    void** handles;  // garbage, except in the domain atb, where it is to be filled
};
struct RegionReference {
    std::int32_t kind;  // garbage; what it is follows from the domain
    void* pointer_or_handle;
};
struct RegionsUnregisterBatch {
    std::size_t count;
    const RegionReference* references;
};

static_assert(sizeof(VirtualRange) == 24 && offsetof(VirtualRange, size) == 16);
static_assert(sizeof(HeapDescription) == 16 && offsetof(HeapDescription, range) == 8);
static_assert(sizeof(RegionsRegisterBatch) == 40 && offsetof(RegionsRegisterBatch, count) == 16);
static_assert(offsetof(RegionsRegisterBatch, handles) == 32);
static_assert(sizeof(RegionReference) == 16 && offsetof(RegionReference, pointer_or_handle) == 8);
static_assert(sizeof(RegionsUnregisterBatch) == 16);

}  // namespace msmemscope::mstx
