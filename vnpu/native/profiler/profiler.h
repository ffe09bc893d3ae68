// The profiler's interface (libprofapi.so) as a pass-through: a tool registers callbacks for what the runtime and the
// frameworks report, and gives commands to the modules that registered for them. Without a tool nothing is reported.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// For tools. Types of callbacks are those of ProfilerCallback below.
int32_t MsprofRegisterProfileCallback(int32_t type, void* callback, uint32_t length);
int32_t profSetProfCommand(void* command, uint32_t length);
int32_t profRegCtrlCallback(int32_t (*handler)(uint32_t type, void* data, uint32_t length));

// For modules.
using ProfCommandHandle = int32_t (*)(uint32_t type, void* data, uint32_t length);
int32_t MsprofRegisterCallback(uint32_t module, ProfCommandHandle handle);
uint64_t MsprofGetHashId(const char* text, size_t length);
int32_t MsprofReportCompactInfo(uint32_t aging, const void* data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void* data, uint32_t length);
int32_t MsprofReportApi(uint32_t aging, const void* api);
int32_t MsprofReportEvent(uint32_t aging, const void* event);
int32_t MsprofRegTypeInfo(uint16_t level, uint32_t type, const char* name);
uint64_t MsprofSysCycleTime();

}  // extern "C"

namespace virtual_npu {

enum ProfilerCallback : int32_t {
    kCallbackCompact = 4,
    kCallbackAdditional = 5,
    kCallbackApi = 9,
    kCallbackEvent = 10,
    kCallbackTypeInfo = 11,
    kCallbackHashId = 12,
    kCallbackTypes = 32,  // more than there are
};

// The command of profSetProfCommand.
struct ProfilerCommand {
    uint64_t switches;
    uint64_t more_switches;
    uint32_t device_count;
    uint32_t devices[64];
    uint32_t model;
    uint32_t type;
    uint32_t cache;
    uint32_t parameters[3];
    char paths[1024 + 4096];
};
static_assert(sizeof(ProfilerCommand) == 5424);

constexpr uint32_t kCommandStart = 1;
constexpr uint32_t kCommandStop = 2;
constexpr uint64_t kSwitchTaskTime = 0x800;
constexpr uint64_t kSwitchRuntimeTrace = 0x4000000;

// What the runtime reports for each task that it gives to a device.
struct TaskTrack {
    uint16_t magic;
    uint16_t level;
    uint32_t type;
    uint32_t thread;
    uint32_t data_bytes;
    uint64_t counter;
    uint16_t device;
    uint16_t stream;
    uint32_t task;
    uint64_t task_type;
    uint64_t kernel_name;  // of MsprofGetHashId; 0 if the task is no kernel
    uint64_t rest[2];
};
static_assert(sizeof(TaskTrack) == 64);

constexpr uint16_t kReportMagic = 0x5a5a;
constexpr uint16_t kRuntimeLevel = 5000;
constexpr uint32_t kTaskTrack = 802;

}  // namespace virtual_npu
