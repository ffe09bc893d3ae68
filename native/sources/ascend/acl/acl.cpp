#include "sources/ascend/acl/acl.h"

#include <atomic>
#include <cstdio>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "interpose/patcher.h"
#include "sources/ascend/acl/visible_devices.h"
#include "sources/ascend/kernel_launch/kernel_launch.h"
#include "sources/loaded_function.h"

namespace msmemscope::acl {

namespace {

// Devices that were noted as used.
std::atomic<bool> noted_devices[format::kDevicesPerKind];

LoadedFunction<const char*()> soc_name("aclrtGetSocName");
// These count the devices that the program sees, and rtGetDevice counts those of the driver.
LoadedFunction<int(std::int32_t*), 2> get_visible_device("aclrtGetDeviceImpl", "aclrtGetDevice");
LoadedFunction<int(std::int32_t*)> get_driver_device("rtGetDevice");
LoadedFunction<int(void*, std::int32_t*), 2> get_stream_id("aclrtStreamGetIdImpl", "aclrtStreamGetId");

void record_system_event(format::EventKind kind) noexcept {
    const KeepErrno keep_errno;
    const RecordingScope scope(true);
    if (scope && recorder::is_collecting()) {
        recorder::append(scope, Event{kind});
    }
}

void note_device(int logical) noexcept {
    if (logical < 0 || logical >= format::kDevicesPerKind || noted_devices[logical].load(std::memory_order_relaxed) ||
        noted_devices[logical].exchange(true, std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    char text[96];
    std::snprintf(text, sizeof(text), "%d is device %d of the driver", logical, physical_device(logical));
    recorder::note_fact("acl.device", text);
    const auto name_of_chip = soc_name.get();
    const char* const name = name_of_chip != nullptr ? name_of_chip() : nullptr;
    if (name != nullptr) {
        std::snprintf(text, sizeof(text), "npu:%d %s", physical_device(logical), name);
        recorder::note_fact("device.name", text);
    }
}

int init(const Call<int(const char*)>& call, const char* configuration_path) {
    read_visible_devices();
    const int result = call.real(configuration_path);
    record_system_event(format::EventKind::kAclInit);
    return result;
}

int finalize(const Call<int()>& call) {
    kernel_launch::finish();
    const int result = call.real();
    record_system_event(format::EventKind::kAclFini);
    return result;
}

int set_device(const Call<int(std::int32_t)>& call, std::int32_t device) {
    read_visible_devices();
    const int result = call.real(device);
    if (result == 0) {
        note_device(device);
    }
    return result;
}

constexpr Hook kHookList[] = {
    hook<&init>(nullptr, "aclInit", "acl"),
    hook<&finalize>(nullptr, "aclFinalize", "acl"),
    hook<&set_device>(nullptr, "aclrtSetDevice", "acl"),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

int current_device() noexcept {
    const auto get_visible = get_visible_device.get();
    const auto get_device = get_visible != nullptr ? get_visible : get_driver_device.get();
    if (get_device == nullptr) {
        return -1;
    }
    const KeepErrno keep_errno;
    std::int32_t device = -1;
    const RecordingScope unobserved(false);  // entered or not: the caller may be inside of one already
    if (get_device(&device) != 0 || device < 0) {
        return -1;
    }
    return get_visible != nullptr ? physical_device(device) : device;
}

std::int32_t current_stream_id(void* stream) noexcept {
    const auto get_id = get_stream_id.get();
    if (get_id == nullptr) {
        return -1;
    }
    const KeepErrno keep_errno;
    std::int32_t number = -1;
    const RecordingScope unobserved(false);
    return get_id(stream, &number) == 0 ? number : -1;
}

}  // namespace msmemscope::acl
