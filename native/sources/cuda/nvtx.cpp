#include "sources/cuda/nvtx.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/stacks/unwind_tables.h"
#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "sources/cuda/devices.h"
#include "sources/program_marks.h"

namespace msmemscope::cuda {
namespace {

// --- NVTX 3 as its callers were compiled: nvtxTypes.h and nvToolsExt.h of the CUDA toolkit.

using Function = void (*)();
// A table's entries point at the caller's function pointers; entry 0 is null.
using FunctionTable = Function**;
struct Callbacks {
    std::size_t bytes;
    int (*get_module)(int module, FunctionTable* table, unsigned* size);
};
constexpr unsigned kCallbacks = 1;  // the number of that table

enum Module : int { kCore = 1, kDomains = 5 };

// nvtxEventAttributes_t
struct EventAttributes {
    std::uint16_t version;
    std::uint16_t bytes;
    std::uint32_t category;
    std::uint32_t colour[2];
    std::uint32_t payload[4];
    std::int32_t message_kind;
    std::int32_t reserved;
    const void* message;
};
static_assert(sizeof(EventAttributes) == 48 && offsetof(EventAttributes, message_kind) == 32);
static_assert(offsetof(EventAttributes, message) == 40);
constexpr int kCharacters = 1;
constexpr int kRegistered = 3;  // a handle that register_string returned

// --- where a mark belongs

bool place(const RecordingScope&, void*, Event& event) {
    event.device = device_of_runtime(current_device());
    return event.device == format::kDeviceNone || recorder::observes(event.device);
}

// Null of a message in wide characters.
const char* message_of(const EventAttributes* attributes) noexcept {
    const bool is_text =
        attributes != nullptr && (attributes->message_kind == kCharacters || attributes->message_kind == kRegistered);
    return is_text ? static_cast<const char*>(attributes->message) : nullptr;
}

// --- marks, and ranges that begin and end anywhere

void mark(const char* message) { program_marks::mark(message, nullptr, place); }
void mark_with(const EventAttributes* attributes) { mark(message_of(attributes)); }
std::uint64_t range_start(const char* message) { return program_marks::begin_range(message, nullptr, place); }
std::uint64_t range_start_with(const EventAttributes* attributes) { return range_start(message_of(attributes)); }
void range_end(std::uint64_t range) { program_marks::end_range(range, place); }

// --- ranges of a thread, which nest

// Deeper ranges are counted, and not recorded. A library that is loaded late gets 512 bytes of such memory at most, for
// all that it has.
constexpr int kDeepest = 10;
struct OpenRanges {
    int depth;
    std::uint64_t ranges[kDeepest];
};
__attribute__((tls_model("initial-exec"))) __thread OpenRanges open_ranges;

constexpr int kNoRange = -1;

// Both return the depth of the range, from 0.
int push(const char* message) {
    OpenRanges& open = open_ranges;
    if (open.depth < kDeepest) {
        open.ranges[open.depth] = program_marks::begin_range(message, nullptr, place);
    }
    return open.depth++;
}
int push_with(const EventAttributes* attributes) { return push(message_of(attributes)); }
int pop() {
    OpenRanges& open = open_ranges;
    if (open.depth == 0) {
        return kNoRange;
    }
    --open.depth;
    if (open.depth < kDeepest) {
        program_marks::end_range(open.ranges[open.depth], place);
    }
    return open.depth;
}

// --- domains: libraries such as NCCL have their own, and their marks are not the program's. Null is the program's.

void* create_domain(const char*) {
    static char domain;
    return &domain;
}
void domain_mark(void* domain, const EventAttributes* attributes) {
    if (domain == nullptr) {
        mark_with(attributes);
    }
}
std::uint64_t domain_range_start(void* domain, const EventAttributes* attributes) {
    return domain == nullptr ? range_start_with(attributes) : 0;
}
void domain_range_end(void* domain, std::uint64_t range) {
    if (domain == nullptr) {
        range_end(range);
    }
}
int domain_push(void* domain, const EventAttributes* attributes) {
    return domain == nullptr ? push_with(attributes) : kNoRange;
}
int domain_pop(void* domain) { return domain == nullptr ? pop() : kNoRange; }
// A handle stays valid for the life of the process, so the copy is never freed.
const void* register_string(void* domain, const char* text) {
    return domain == nullptr && text != nullptr ? strdup(text) : "";
}

template <typename Ours>
Function erased(Ours ours) {
    return reinterpret_cast<Function>(ours);
}

struct Slot {
    Module module;
    unsigned function;
    Function ours;
};

// Numbers of NvtxCallbackIdCore and NvtxCallbackIdCore2. Functions that are not listed do nothing, as without a tool.
const Slot kSlots[] = {
    {kCore, 1, erased(&mark_with)},
    {kCore, 2, erased(&mark)},
    {kCore, 4, erased(&range_start_with)},
    {kCore, 5, erased(&range_start)},
    {kCore, 7, erased(&range_end)},
    {kCore, 8, erased(&push_with)},
    {kCore, 9, erased(&push)},
    {kCore, 11, erased(&pop)},
    {kDomains, 1, erased(&domain_mark)},
    {kDomains, 2, erased(&domain_range_start)},
    {kDomains, 3, erased(&domain_range_end)},
    {kDomains, 4, erased(&domain_push)},
    {kDomains, 5, erased(&domain_pop)},
    {kDomains, 10, erased(&register_string)},
    {kDomains, 12, erased(&create_domain)},
    {kDomains, 13, erased(&create_domain)},
};

// The answer is const to those who ask: they only open the library that it names.
char* answer_getenv(const Call<char*(const char*)>& call, const char* name) {
    char* const real = call.real(name);
    if (real != nullptr || std::strcmp(name, "NVTX_INJECTION64_PATH") != 0 ||
        !recorder::settings().devices.has_some(format::DeviceKind::kCuda)) {
        return real;
    }
    const KeepErrno keep_errno;
    return const_cast<char*>(find_library(reinterpret_cast<const void*>(&answer_getenv)));
}

// No source: whether a library asks says nothing of CUDA.
constexpr Hook kHookList[] = {
    hook<&answer_getenv>("libtorch*", "getenv", nullptr),
};

}  // namespace

const HookTable kNvtxHooks = table_of(kHookList);

}  // namespace msmemscope::cuda

int InitializeInjectionNvtx2(const void* (*get_export_table)(unsigned number)) {
    using namespace msmemscope::cuda;
    const auto* const callbacks =
        get_export_table != nullptr ? static_cast<const Callbacks*>(get_export_table(kCallbacks)) : nullptr;
    if (callbacks == nullptr || callbacks->bytes < sizeof(Callbacks) || callbacks->get_module == nullptr) {
        return 0;  // NVTX then does nothing, as without a tool
    }
    for (const Slot& slot : kSlots) {
        FunctionTable table = nullptr;
        unsigned size = 0;
        if (callbacks->get_module(slot.module, &table, &size) != 0 && table != nullptr && slot.function < size &&
            table[slot.function] != nullptr) {
            *table[slot.function] = slot.ours;
        }
    }
    const char* const caller = msmemscope::find_library(reinterpret_cast<const void*>(get_export_table));
    msmemscope::recorder::note_fact("observed.nvtx", caller != nullptr ? caller : "");
    return 1;
}
