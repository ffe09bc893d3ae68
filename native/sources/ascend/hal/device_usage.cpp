#include "sources/ascend/hal/device_usage.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "sources/ascend/npu.h"
#include "sources/management_interface.h"
#include "sources/memory_usage.h"

namespace msmemscope::hal {
namespace {

// The interface's own layouts.
struct HbmInformation {
    std::uint64_t total_mib;
    std::uint32_t frequency;
    std::uint64_t used_mib;
    std::int32_t temperature;
    std::uint32_t bandwidth_percent;
};
static_assert(sizeof(HbmInformation) == 32);

struct ProcessUsage {
    std::int32_t process_id;
    unsigned long bytes;
};
static_assert(sizeof(ProcessUsage) == 16);

constexpr const char* kLibrary = "libdcmi.so";
constexpr int kMostCards = 32;
constexpr int kMostProcesses = 64;
constexpr unsigned kMostDevices = format::kDevicesPerKind;

int (*initialise)() = nullptr;
int (*get_cards)(int*, int*, int) = nullptr;
int (*get_devices_of_card)(int, int*) = nullptr;
int (*get_number)(int*, int, int) = nullptr;
int (*get_hbm)(int, int, HbmInformation*) = nullptr;
int (*get_processes)(int, int, ProcessUsage*, int*) = nullptr;

struct Place {
    bool known;
    int card;
    int device;
};
Place places[kMostDevices];

WrittenUsage written[kMostDevices];

// Null, or what is missing.
const char* load() noexcept {
    void* const library = dlopen(kLibrary, RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        dlerror();  // the program shall not find our errors
        return "libdcmi.so is not found by the dynamic loader";
    }
    if (!resolve(library, "dcmi_init", initialise) || !resolve(library, "dcmi_get_card_list", get_cards) ||
        !resolve(library, "dcmi_get_device_num_in_card", get_devices_of_card) ||
        !resolve(library, "dcmi_get_device_logic_id", get_number) ||
        !resolve(library, "dcmi_get_device_hbm_info", get_hbm)) {
        return "libdcmi.so lacks functions";
    }
    resolve(library, "dcmi_get_npu_proc_mem_info", get_processes);  // the device's own figure comes without it
    if (initialise() != 0) {
        return "dcmi_init failed";
    }
    int cards[kMostCards] = {};
    int card_count = 0;
    if (get_cards(&card_count, cards, kMostCards) != 0) {
        return "dcmi_get_card_list failed";
    }
    for (int index = 0; index < card_count && index < kMostCards; ++index) {
        int device_count = 0;
        if (get_devices_of_card(cards[index], &device_count) != 0) {
            continue;
        }
        for (int device = 0; device < device_count; ++device) {
            int number = -1;
            if (get_number(&number, cards[index], device) == 0 && number >= 0 &&
                static_cast<unsigned>(number) < kMostDevices) {
                places[number] = Place{true, cards[index], device};
            }
        }
    }
    return nullptr;
}

ManagementInterface dcmi(load, "observed.dcmi", "unobserved.dcmi");

void note_result() noexcept { dcmi.note(reinterpret_cast<void*>(initialise), kLibrary); }

std::uint64_t device_bytes(const Place& place) noexcept {
    HbmInformation information{};
    return get_hbm(place.card, place.device, &information) == 0 ? information.used_mib << 20U : kUnknownUsage;
}

std::uint64_t process_bytes(const Place& place) noexcept {
    ProcessUsage processes[kMostProcesses] = {};
    int count = kMostProcesses;
    if (get_processes == nullptr || get_processes(place.card, place.device, processes, &count) != 0) {
        return kUnknownUsage;
    }
    const std::int32_t self = getpid();
    for (int index = 0; index < count && index < kMostProcesses; ++index) {
        if (processes[index].process_id == self) {
            return processes[index].bytes;
        }
    }
    return kUnknownUsage;  // in a container, where the driver knows the process by another number
}

}  // namespace

void record_device_usage(unsigned device, const RecordPlace& place) noexcept {
    if (device >= kMostDevices || !recorder::is_collecting()) {
        return;
    }
    bool loaded = false;
    {
        // The scope keeps allocations of the management interface out of the program's events.
        const RecordingScope scope(false);
        if (scope && dcmi.is_ready(recorder::epoch(), loaded) && places[device].known) {
            append_usage(scope, npu(static_cast<int>(device)), written[device], device_bytes(places[device]),
                         process_bytes(places[device]), place);
        }
    }
    if (loaded) {
        note_result();  // outside: facts are written in a scope of their own
    }
}

void record_usage_again(const RecordingScope& scope) noexcept {
    if (!dcmi.was_loaded(recorder::epoch())) {
        return;
    }
    for (unsigned device = 0; device < kMostDevices; ++device) {
        // In an epoch that never was, nothing is as it was.
        if (places[device].known && observes_npu(static_cast<int>(device)) &&
            written[device].epoch.exchange(0, std::memory_order_relaxed) != 0) {
            append_usage(scope, npu(static_cast<int>(device)), written[device], device_bytes(places[device]),
                         process_bytes(places[device]));
        }
    }
}

void prepare_device_memory() noexcept {
    bool loaded = false;
    {
        const RecordingScope scope(false);
        if (scope) {
            dcmi.is_ready(recorder::epoch(), loaded);
        }
    }
    if (loaded) {
        note_result();
    }
}

bool device_memory(const RecordingScope& scope, unsigned device, MemoryBytes& memory) noexcept {
    static_cast<void>(scope);
    HbmInformation information{};
    if (device >= kMostDevices || !dcmi.was_loaded(recorder::epoch()) || !places[device].known ||
        get_hbm(places[device].card, places[device].device, &information) != 0 ||
        information.used_mib > information.total_mib) {
        return false;
    }
    memory.total = information.total_mib << 20U;
    memory.free = (information.total_mib - information.used_mib) << 20U;
    return true;
}

bool ask_device_memory(unsigned device, MemoryBytes& memory) noexcept {
    prepare_device_memory();
    const RecordingScope scope(false);
    return scope && device_memory(scope, device, memory);
}

}  // namespace msmemscope::hal
