#include "profiler.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "stars_channel.h"

namespace virtual_npu {
namespace {

constexpr uint32_t kSwitchCommand = 1;  // what a module's handler is told it gets

std::atomic<void*> callbacks[kCallbackTypes];

std::mutex guard;
std::set<std::pair<uint32_t, ProfCommandHandle>>& modules() {
    static auto* registered = new std::set<std::pair<uint32_t, ProfCommandHandle>>();
    return *registered;
}
ProfilerCommand last_command{};

template <typename Function>
Function callback(ProfilerCallback type) {
    return reinterpret_cast<Function>(callbacks[type].load(std::memory_order_acquire));
}

using ReportData = int32_t (*)(uint32_t, const void*, uint32_t);
using ReportObject = int32_t (*)(uint32_t, const void*);

}  // namespace
}  // namespace virtual_npu

using namespace virtual_npu;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int32_t MsprofRegisterProfileCallback(int32_t type, void* function, uint32_t) {
    if (type < 0 || type >= kCallbackTypes || function == nullptr) return -1;
    callbacks[type].store(function, std::memory_order_release);
    return 0;
}

EXPORTED int32_t profRegCtrlCallback(int32_t (*)(uint32_t, void*, uint32_t)) { return 0; }

EXPORTED int32_t profSetProfCommand(void* data, uint32_t length) {
    if (data == nullptr || length != sizeof(ProfilerCommand)) return -1;
    std::set<std::pair<uint32_t, ProfCommandHandle>> reported;
    {
        const std::lock_guard<std::mutex> lock(guard);
        std::memcpy(&last_command, data, sizeof last_command);
        reported = modules();
    }
    for (const auto& [module, handle] : reported) handle(kSwitchCommand, data, length);
    return 0;
}

EXPORTED int32_t MsprofRegisterCallback(uint32_t module, ProfCommandHandle handle) {
    if (handle == nullptr) return -1;
    ProfilerCommand command{};
    {
        const std::lock_guard<std::mutex> lock(guard);
        modules().insert({module, handle});
        command = last_command;
    }
    // Who comes late hears what is in force.
    if (command.type == kCommandStart) handle(kSwitchCommand, &command, sizeof command);
    return 0;
}

EXPORTED uint64_t MsprofGetHashId(const char* text, size_t length) {
    const auto hash = callback<uint64_t (*)(const char*, size_t)>(kCallbackHashId);
    return hash == nullptr || text == nullptr ? 0 : hash(text, length);
}

EXPORTED int32_t MsprofReportCompactInfo(uint32_t aging, const void* data, uint32_t length) {
    const auto report = callback<ReportData>(kCallbackCompact);
    return report == nullptr ? 0 : report(aging, data, length);
}

EXPORTED int32_t MsprofReportAdditionalInfo(uint32_t aging, const void* data, uint32_t length) {
    const auto report = callback<ReportData>(kCallbackAdditional);
    return report == nullptr ? 0 : report(aging, data, length);
}

EXPORTED int32_t MsprofReportApi(uint32_t aging, const void* api) {
    const auto report = callback<ReportObject>(kCallbackApi);
    return report == nullptr ? 0 : report(aging, api);
}

EXPORTED int32_t MsprofReportEvent(uint32_t aging, const void* event) {
    const auto report = callback<ReportObject>(kCallbackEvent);
    return report == nullptr ? 0 : report(aging, event);
}

EXPORTED int32_t MsprofRegTypeInfo(uint16_t level, uint32_t type, const char* name) {
    const auto report = callback<int32_t (*)(uint16_t, uint32_t, const char*, size_t)>(kCallbackTypeInfo);
    return report == nullptr || name == nullptr ? 0 : report(level, type, name, std::strlen(name));
}

EXPORTED uint64_t MsprofSysCycleTime() { return virtual_npu_device_counter(); }
