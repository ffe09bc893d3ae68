#include "pools.h"

#include <dlfcn.h>

namespace fake_atb {
namespace {

struct HeapDescription {
    std::int32_t usage;
    std::int32_t type;
    const Range* range;
};

struct RegionsBatch {
    void* heap;
    std::int32_t type;
    std::size_t count;
    const Range* ranges;
    void** handles;
};

struct Reference {
    std::int32_t type;
    void* handle;
};

struct ReferencesBatch {
    std::size_t count;
    const Reference* references;
};

template <typename Function>
Function* mstx(const char* name) {
    static void* const library = dlopen("libms_tools_ext.so", RTLD_LAZY | RTLD_GLOBAL);
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

void* create_domain(const char* name) {
    const auto create = mstx<void*(const char*)>("mstxDomainCreateA");
    return create == nullptr ? nullptr : create(name);
}

void* register_heap(void* domain, const Range& range) {
    const HeapDescription description{1, 0, &range};
    return mstx<void*(void*, const HeapDescription*)>("mstxMemHeapRegister")(domain, &description);
}

void unregister_heap(void* domain, void* heap) { mstx<void(void*, void*)>("mstxMemHeapUnregister")(domain, heap); }

std::vector<void*> register_regions(void* domain, void* heap, const std::vector<Range>& ranges) {
    std::vector<void*> handles(ranges.size());
    const RegionsBatch batch{heap, 0, ranges.size(), ranges.data(), handles.data()};
    mstx<void(void*, const RegionsBatch*)>("mstxMemRegionsRegister")(domain, &batch);
    return handles;
}

void unregister_regions(void* domain, const std::vector<void*>& handles) {
    std::vector<Reference> references;
    for (void* handle : handles) references.push_back(Reference{1, handle});
    const ReferencesBatch batch{references.size(), references.data()};
    mstx<void(void*, const ReferencesBatch*)>("mstxMemRegionsUnregister")(domain, &batch);
}

}  // namespace fake_atb
