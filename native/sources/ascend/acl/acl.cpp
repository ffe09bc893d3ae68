#include "sources/ascend/acl/acl.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <iterator>

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

// A function that different versions of CANN have under different names.
struct Candidate {
    const char* function;
    bool counts_visible_devices;  // false: its numbers are the driver's
};

constexpr Candidate kGetDevice[] = {{"aclrtGetDeviceImpl", true}, {"aclrtGetDevice", true}, {"rtGetDevice", false}};
constexpr Candidate kStreamGetId[] = {{"aclrtStreamGetIdImpl", true}, {"aclrtStreamGetId", true}};

// The first of several candidates that is loaded. A search that finds none is repeated ever more rarely, because it is
// slow and the libraries may still come.
template <std::size_t Count>
class Lookup {
public:
    explicit constexpr Lookup(const Candidate (&candidates)[Count]) : candidates_(candidates) {}

    // Null if none is loaded.
    void* get(bool& counts_visible_devices) noexcept {
        const int known = found_.load(std::memory_order_acquire);
        if (known >= 0) {
            counts_visible_devices = candidates_[known].counts_visible_devices;
            return function_.load(std::memory_order_relaxed);
        }
        const std::uint32_t misses = misses_.fetch_add(1, std::memory_order_relaxed);
        if ((misses & (misses - 1)) != 0) {
            return nullptr;
        }
        const KeepErrno keep_errno;
        for (std::size_t index = 0; index < Count; ++index) {
            void* const function = find_function(candidates_[index].function);
            if (function != nullptr) {
                function_.store(function, std::memory_order_relaxed);
                found_.store(static_cast<int>(index), std::memory_order_release);
                counts_visible_devices = candidates_[index].counts_visible_devices;
                return function;
            }
        }
        return nullptr;
    }

private:
    const Candidate (&candidates_)[Count];
    std::atomic<void*> function_{nullptr};
    std::atomic<int> found_{-1};
    std::atomic<std::uint32_t> misses_{0};
};

LoadedFunction<const char*()> soc_name("aclrtGetSocName");
Lookup<std::size(kGetDevice)> device_lookup(kGetDevice);
Lookup<std::size(kStreamGetId)> stream_lookup(kStreamGetId);

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
    bool counts_visible_devices = false;
    const auto get_device = reinterpret_cast<int (*)(std::int32_t*)>(device_lookup.get(counts_visible_devices));
    if (get_device == nullptr) {
        return -1;
    }
    const KeepErrno keep_errno;
    std::int32_t device = -1;
    const RecordingScope unobserved(false);  // entered or not: the caller may be inside of one already
    if (get_device(&device) != 0 || device < 0) {
        return -1;
    }
    return counts_visible_devices ? physical_device(device) : device;
}

std::int32_t current_stream_id(void* stream) noexcept {
    bool ignored = false;
    const auto get_id = reinterpret_cast<int (*)(void*, std::int32_t*)>(stream_lookup.get(ignored));
    if (get_id == nullptr) {
        return -1;
    }
    const KeepErrno keep_errno;
    std::int32_t number = -1;
    const RecordingScope unobserved(false);
    return get_id(stream, &number) == 0 ? number : -1;
}

}  // namespace msmemscope::acl
