#include "sources/cuda/device_usage.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "core/writer/monotonic_clock.h"
#include "sources/cuda/devices.h"
#include "sources/loaded_function.h"
#include "sources/management_interface.h"

namespace msmemscope::cuda {
namespace {

// Layouts of nvml.h.
using Handle = void*;
struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
struct ProcessUsage {
    unsigned process_id;
    unsigned long long bytes;
    unsigned instances[2];
};
static_assert(sizeof(ProcessUsage) == 24);

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr unsigned kMostProcesses = 64;
// Figures that take longer than an allocation are taken for a small part of the time: the others of their time wait.
constexpr std::uint64_t kQuickNs = 500'000;
constexpr std::uint64_t kTimesWaiting = 20;

int (*initialise)() = nullptr;
int (*find_by_bus)(const char*, Handle*) = nullptr;
int (*get_memory)(Handle, Memory*) = nullptr;
int (*get_processes)(Handle, unsigned*, ProcessUsage*) = nullptr;
int (*get_name)(Handle, char*, unsigned) = nullptr;
int (*get_driver_version)(char*, unsigned) = nullptr;

struct Place {
    std::atomic<Handle> handle{nullptr};
    std::atomic<std::uint64_t> next_ns{0};  // no figures before
    std::atomic<bool> is_named{false};
};
Place places[format::kDevicesPerKind];

LoadedFunction<int(char*, int, int)> bus_of_device("cuDeviceGetPCIBusId");

WrittenUsage written[format::kDevicesPerKind];

const char* load() noexcept {
    for (Place& place : places) {  // of the parent
        place.handle.store(nullptr, std::memory_order_relaxed);
        place.is_named.store(false, std::memory_order_relaxed);
    }
    void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        dlerror();  // the program shall not find our errors
        return "libnvidia-ml.so.1 is not found by the dynamic loader";
    }
    if (!resolve(library, "nvmlInit_v2", initialise) ||
        !resolve(library, "nvmlDeviceGetHandleByPciBusId_v2", find_by_bus) ||
        !resolve(library, "nvmlDeviceGetMemoryInfo", get_memory)) {
        return "libnvidia-ml.so.1 lacks functions";
    }
    // The device's figure comes without these.
    resolve(library, "nvmlDeviceGetComputeRunningProcesses_v3", get_processes);
    resolve(library, "nvmlDeviceGetName", get_name);
    resolve(library, "nvmlSystemGetDriverVersion", get_driver_version);
    return initialise() == kSuccess ? nullptr : "nvmlInit failed";
}

ManagementInterface nvml(load, "observed.nvml", "unobserved.nvml");

void note_loaded(bool loaded) noexcept {
    if (loaded) {
        nvml.note(reinterpret_cast<void*>(initialise), kLibrary);
        char version[80] = {};  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
        if (get_driver_version != nullptr && get_driver_version(version, sizeof(version)) == kSuccess) {
            recorder::note_fact("software.cuda_driver", version);
        }
    }
}

// The kind of card, once.
void note_name(format::Device device) noexcept {
    Place& place = places[format::index_of(device)];
    const Handle handle = place.handle.load(std::memory_order_relaxed);
    if (handle == nullptr || get_name == nullptr || place.is_named.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    char name[96] = {};  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
    char text[128];
    if (get_name(handle, name, sizeof(name)) == kSuccess) {
        std::snprintf(text, sizeof(text), "cuda:%d %s", format::index_of(device), name);
        recorder::note_fact("device.name", text);
    }
}

Handle handle_of(int number, format::Device device) noexcept {
    Place& place = places[format::index_of(device)];
    Handle handle = place.handle.load(std::memory_order_relaxed);
    if (handle == nullptr) {
        const auto bus_of = bus_of_device.get();
        char bus[32] = {};
        if (bus_of != nullptr && bus_of(bus, sizeof(bus), number) == kSuccess &&
            find_by_bus(bus, &handle) == kSuccess) {
            place.handle.store(handle, std::memory_order_relaxed);
        }
    }
    return handle;
}

Handle known_handle(format::Device device) noexcept {
    const int index = format::index_of(device);
    return index >= 0 && nvml.was_loaded(recorder::epoch()) ? places[index].handle.load(std::memory_order_relaxed)
                                                            : nullptr;
}

std::uint64_t process_bytes(Handle handle) noexcept {
    ProcessUsage processes[kMostProcesses] = {};
    unsigned count = kMostProcesses;
    if (get_processes == nullptr || get_processes(handle, &count, processes) != kSuccess) {
        return kUnknownUsage;
    }
    for (unsigned index = 0; index < count && index < kMostProcesses; ++index) {
        if (processes[index].process_id == static_cast<unsigned>(getpid())) {
            return processes[index].bytes;
        }
    }
    return kUnknownUsage;  // in a container, where the driver knows the process by another number
}

void append_figures(const RecordingScope& scope, Handle handle, format::Device device,
                    const RecordPlace& place) noexcept {
    const int index = format::index_of(device);
    const std::uint64_t begin = monotonic_ns();
    std::atomic<std::uint64_t>& next = places[index].next_ns;
    if (begin < next.load(std::memory_order_relaxed)) {
        return;
    }
    Memory memory{};
    const std::uint64_t used = get_memory(handle, &memory) == kSuccess ? memory.used : kUnknownUsage;
    append_usage(scope, device, written[index], used, process_bytes(handle), place);
    const std::uint64_t end = monotonic_ns();
    if (end - begin > kQuickNs) {
        next.store(end + kTimesWaiting * (end - begin), std::memory_order_relaxed);
    }
}

}  // namespace

void record_device_usage(int number, format::Device device, const RecordPlace& place) noexcept {
    if (!recorder::is_collecting()) {
        return;
    }
    bool loaded = false;
    {
        const RecordingScope scope(false);
        if (scope && nvml.is_ready(recorder::epoch(), loaded)) {
            const Handle handle = handle_of(number, device);
            if (handle != nullptr) {
                append_figures(scope, handle, device, place);
            }
        }
    }
    note_loaded(loaded);
    note_name(device);
}

void record_usage_of(format::Device device, const RecordPlace& place) noexcept {
    const Handle handle = known_handle(device);
    const RecordingScope scope(false);
    if (handle != nullptr && scope && recorder::is_collecting()) {
        append_figures(scope, handle, device, place);
    }
}

void record_usage_now(format::Device device) noexcept {
    if (device != format::kDeviceNone && recorder::observes(device)) {
        places[format::index_of(device)].next_ns.store(0, std::memory_order_relaxed);
        record_usage_of(device, {});
    }
}

void record_usage_again(const RecordingScope& scope) noexcept {
    for (int index = 0; index < format::kDevicesPerKind; ++index) {
        const format::Device device = format::device_of(format::DeviceKind::kCuda, index);
        const Handle handle = known_handle(device);
        // In an epoch that never was, nothing is as it was.
        if (handle != nullptr && recorder::settings().observes(device) &&
            written[index].epoch.exchange(0, std::memory_order_relaxed) != 0) {
            append_figures(scope, handle, device, {});
        }
    }
}

void prepare_device_memory() noexcept {
    bool loaded = false;
    {
        const RecordingScope scope(false);
        if (scope) {
            nvml.is_ready(recorder::epoch(), loaded);
        }
    }
    note_loaded(loaded);
}

bool device_memory(const RecordingScope& scope, format::Device device, MemoryBytes& memory) noexcept {
    static_cast<void>(scope);
    Memory found{};
    const Handle handle = known_handle(device);
    if (handle == nullptr || get_memory(handle, &found) != kSuccess || found.free > found.total) {
        return false;
    }
    memory = {found.total, found.free};
    return true;
}

}  // namespace msmemscope::cuda
