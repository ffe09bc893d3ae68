// How mstx finds us and gets our functions.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "sources/ascend/mstx/marks.h"
#include "sources/ascend/mstx/mstx.h"
#include "sources/ascend/mstx/pools.h"

namespace msmemscope::mstx {
namespace {

struct Slot {
    Module module;
    unsigned function;
    Function ours;
};

template <typename Ours>
Function erased(Ours ours) {
    return reinterpret_cast<Function>(ours);
}

// Functions that are not listed do nothing, as if there were no tool.
const Slot kSlots[] = {
    {kCore, kMark, erased(&mark)},
    {kCore, kRangeStart, erased(&range_start)},
    {kCore, kRangeEnd, erased(&range_end)},
    {kCore, kGetToolId, erased(&get_tool_id)},
    {kDomain, kDomainCreate, erased(&create_domain)},
    {kDomain, kDomainMark, erased(&domain_mark)},
    {kDomain, kDomainRangeStart, erased(&domain_range_start)},
    {kDomain, kDomainRangeEnd, erased(&domain_range_end)},
    {kMemory, kHeapRegister, erased(&register_heap)},
    {kMemory, kHeapUnregister, erased(&unregister_heap)},
    {kMemory, kRegionsRegister, erased(&register_regions)},
    {kMemory, kRegionsUnregister, erased(&unregister_regions)},
};

const char* path_of(const void* code) noexcept {
    Dl_info info{};
    return dladdr(code, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// LD_PRELOAD as the program has it, with libascend_kernel_hook.so of our own folder in front.
char* answer_getenv(const Call<char*(const char*)>& call, const char* name) {
    char* const real = call.real(name);
    if (std::strcmp(name, "LD_PRELOAD") != 0 || !recorder::settings().devices.has_some(format::DeviceKind::kNpu)) {
        return real;
    }
    static char answer[16384];  // the callers ask once, under a lock of their own
    const KeepErrno keep_errno;
    const char* const core = path_of(reinterpret_cast<const void*>(&answer_getenv));
    const char* const slash = std::strrchr(core, '/');
    const int length =
        slash == nullptr
            ? 0
            : std::snprintf(answer, sizeof(answer), "%.*s/libascend_kernel_hook.so%s%s", static_cast<int>(slash - core),
                            core, real != nullptr && *real != '\0' ? ":" : "", real != nullptr ? real : "");
    return length > 0 && static_cast<std::size_t>(length) < sizeof(answer) ? answer : real;
}

constexpr Hook kHookList[] = {
    hook<&answer_getenv>("libtorch_npu.so", "getenv", "mstx"),
    hook<&answer_getenv>("libmindspore*", "getenv", "mstx"),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

void make_findable() noexcept {
    const KeepErrno keep_errno;
    const char* const core = path_of(reinterpret_cast<const void*>(&answer_getenv));
    // The handle is never closed: it is one more reference to a library that stays.
    if (*core != '\0' && dlopen(core, RTLD_NOLOAD | RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
        recorder::note_fact("unobserved.mstx", "the core cannot be made visible to mstx");
    }
}

}  // namespace msmemscope::mstx

int InitInjectionMstx(msmemscope::mstx::TableGetter getter) {
    using namespace msmemscope::mstx;
    if (getter == nullptr) {
        return 1;
    }
    for (const Slot& slot : kSlots) {
        FunctionTable table = nullptr;
        unsigned size = 0;
        // An older mstx has fewer modules, and fewer functions in them. We use those that are there.
        if (getter(slot.module, &table, &size) == 0 && table != nullptr && slot.function < size &&
            table[slot.function] != nullptr) {
            *table[slot.function] = slot.ours;
        }
    }
    msmemscope::recorder::note_fact("observed.mstx", path_of(reinterpret_cast<const void*>(getter)));
    return 0;
}
