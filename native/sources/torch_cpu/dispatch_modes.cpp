#include "sources/torch_cpu/dispatch_modes.h"

#include <atomic>

namespace msmemscope::dispatch_modes {
namespace {

std::atomic<OursIsAlone> ours_is_alone{nullptr};

bool is_enabled(const Call<bool()>& call) {
    if (!call.real()) {
        return false;
    }
    const OursIsAlone ask = ours_is_alone.load(std::memory_order_acquire);
    return ask == nullptr || !ask();
}

constexpr const char* kDispatchModeEnabled = "_ZN3c104impl21dispatch_mode_enabledEv";
constexpr Hook kHookList[] = {
    hook<&is_enabled>("libtorch_cpu.so", kDispatchModeEnabled, nullptr),
    hook<&is_enabled>("libtorch_npu.so", kDispatchModeEnabled, nullptr),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

void set_ours_is_alone(OursIsAlone answer) noexcept { ours_is_alone.store(answer, std::memory_order_release); }

}  // namespace msmemscope::dispatch_modes
