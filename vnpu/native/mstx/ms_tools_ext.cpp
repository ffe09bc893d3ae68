// libms_tools_ext.so: marks, ranges, domains and memory pools, handed to the injected tool. The structures are the
// caller's and go through untouched; see ms_tools_ext_mem.h of mstx for their layouts.
#include <cstdint>

#include "injection.h"

using namespace virtual_npu::mstx;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void mstxMarkA(const char* message, void* stream) { call<void>(kCore, kMark, message, stream); }
EXPORTED uint64_t mstxRangeStartA(const char* message, void* stream) {
    return call<uint64_t>(kCore, kRangeStart, message, stream);
}
EXPORTED void mstxRangeEnd(uint64_t range) { call<void>(kCore, kRangeEnd, range); }
EXPORTED void mstxGetToolId(uint64_t* tool) {
    *tool = 0;
    call<void>(kCore, kGetToolId, tool);
}

EXPORTED void* mstxDomainCreateA(const char* name) { return call<void*>(kDomain, kDomainCreate, name); }
EXPORTED void mstxDomainDestroy(void* domain) { call<void>(kDomain, kDomainDestroy, domain); }
EXPORTED void mstxDomainMarkA(void* domain, const char* message, void* stream) {
    call<void>(kDomain, kDomainMark, domain, message, stream);
}
EXPORTED uint64_t mstxDomainRangeStartA(void* domain, const char* message, void* stream) {
    return call<uint64_t>(kDomain, kDomainRangeStart, domain, message, stream);
}
EXPORTED void mstxDomainRangeEnd(void* domain, uint64_t range) { call<void>(kDomain, kDomainRangeEnd, domain, range); }

EXPORTED void* mstxMemHeapRegister(void* domain, const void* description) {
    return call<void*>(kMemory, kHeapRegister, domain, description);
}
EXPORTED void mstxMemHeapUnregister(void* domain, void* heap) { call<void>(kMemory, kHeapUnregister, domain, heap); }
EXPORTED void mstxMemRegionsRegister(void* domain, const void* batch) {
    call<void>(kMemory, kRegionsRegister, domain, batch);
}
EXPORTED void mstxMemRegionsUnregister(void* domain, const void* batch) {
    call<void>(kMemory, kRegionsUnregister, domain, batch);
}
EXPORTED void mstxMemPermissionsAssign(void* domain, const void* batch) {
    call<void>(kMemory, kPermissionsAssign, domain, batch);
}
