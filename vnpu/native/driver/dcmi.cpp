// The management interface (libdcmi.so): cards, devices, and how much of their memory is in use. One device a card, and
// the number of the card is the driver's number of the device. The account is that of this process: devices of the
// virtual NPU are not shared between processes.
#include <unistd.h>

#include <cstdint>

#include "driver.h"
#include "settings.h"

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidParameter = -8001;
constexpr int kNoSuchDevice = -8012;
constexpr uint64_t kMib = uint64_t{1} << 20;

struct HbmInformation {
    uint64_t memory_size;  // MB
    uint32_t frequency;
    uint64_t memory_usage;  // MB
    int32_t temperature;
    uint32_t bandwidth_utilization;
};
static_assert(sizeof(HbmInformation) == 32);

struct ProcessMemory {
    int32_t process_id;
    unsigned long usage;  // bytes
};
static_assert(sizeof(ProcessMemory) == 16);

bool exists(int card, int device) {
    return card >= 0 && card < static_cast<int>(virtual_npu::settings().devices) && device == 0;
}

uint64_t used_bytes(int card, uint64_t* total) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    virtual_npu_device_memory(static_cast<uint32_t>(card), &free_bytes, &total_bytes);
    *total = total_bytes;
    return total_bytes - free_bytes;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int dcmi_init() { return kSuccess; }

EXPORTED int dcmi_get_card_list(int* count, int* cards, int room) {
    if (count == nullptr || cards == nullptr || room < 0) return kInvalidParameter;
    const int devices = static_cast<int>(virtual_npu::settings().devices);
    *count = devices < room ? devices : room;
    for (int card = 0; card < *count; ++card) cards[card] = card;
    return kSuccess;
}

EXPORTED int dcmi_get_device_num_in_card(int card, int* count) {
    if (count == nullptr) return kInvalidParameter;
    if (!exists(card, 0)) return kNoSuchDevice;
    *count = 1;
    return kSuccess;
}

EXPORTED int dcmi_get_device_logic_id(int* number, int card, int device) {
    if (number == nullptr) return kInvalidParameter;
    if (!exists(card, device)) return kNoSuchDevice;
    *number = card;
    return kSuccess;
}

EXPORTED int dcmi_get_device_hbm_info(int card, int device, HbmInformation* information) {
    if (information == nullptr) return kInvalidParameter;
    if (!exists(card, device)) return kNoSuchDevice;
    uint64_t total = 0;
    const uint64_t used = used_bytes(card, &total);
    *information = {total / kMib, 1600, (used + kMib - 1) / kMib, 40, 0};
    return kSuccess;
}

// processes has room for 64, as callers of the real function know.
EXPORTED int dcmi_get_npu_proc_mem_info(int card, int device, ProcessMemory* processes, int* count) {
    if (processes == nullptr || count == nullptr) return kInvalidParameter;
    if (!exists(card, device)) return kNoSuchDevice;
    uint64_t total = 0;
    const uint64_t used = used_bytes(card, &total);
    *count = used > 0 ? 1 : 0;
    if (used > 0) processes[0] = {static_cast<int32_t>(getpid()), used};
    return kSuccess;
}
