#include "stacks/native_stack.h"

#include <unwind.h>

#include <algorithm>

#include "stacks/modules.h"

namespace msmemscope {
namespace {

// Frames of ours between the hook's caller and the unwinder, at most; beyond it the caller was inlined
// away or called us by a jump, and the stack is kept from there.
constexpr unsigned kMostOwnFrames = 16;

struct Walk {
    std::uint64_t* frames;
    std::uint32_t count;
    std::uint32_t depth;
    std::uint64_t caller;
    unsigned skipped;
    bool begun;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    const auto address = static_cast<std::uint64_t>(_Unwind_GetIP(context));
    if (!walk.begun) {
        walk.begun = address == walk.caller || ++walk.skipped > kMostOwnFrames;
        if (!walk.begun) {
            return _URC_NO_REASON;
        }
    }
    walk.frames[walk.count++] = address;
    return walk.count < walk.depth ? _URC_NO_REASON : _URC_END_OF_STACK;
}

}  // namespace

std::uint32_t take_native_stack(const RecordingScope& scope, std::uint32_t depth, const void* caller) noexcept {
    if (depth == 0) {
        return 0;
    }
    std::uint64_t* const frames = recorder::stack_scratch(scope);
    if (frames == nullptr) {
        return 0;
    }
    Walk walk{frames, 0, std::min(depth, kMaximumStackDepth), reinterpret_cast<std::uint64_t>(caller), 0, false};
    define_modules(scope);
    _Unwind_Backtrace(visit, &walk);
    return recorder::intern_native_stack(scope, walk.frames, walk.count);
}

}  // namespace msmemscope
