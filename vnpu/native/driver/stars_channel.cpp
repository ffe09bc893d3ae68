// Two formats of records, as on hardware: 64 bytes with 16-bit stream and task numbers, and on the Ascend 950 32 bytes
// with the task's number alone. The clock of the former counts 50 MHz, that of the latter 1 GHz.
#include "stars_channel.h"

#include <time.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "driver.h"
#include "settings.h"

namespace virtual_npu {
namespace {

struct LongRecord {
    uint32_t head;
    uint16_t stream;
    uint16_t task;
    uint32_t counter_low;
    uint32_t counter_high;
    uint32_t accelerator;
    uint32_t rest[11];
};
static_assert(sizeof(LongRecord) == 64);

struct ShortRecord {
    uint32_t head;
    uint32_t task;
    uint64_t counter;
    uint32_t accelerator;
    uint32_t rest[3];
};
static_assert(sizeof(ShortRecord) == 32);

constexpr uint32_t kMagic = 0x6bd3;
constexpr size_t kRingBytes = size_t{4} << 20;

struct Channel {
    std::mutex guard;
    bool started;
    std::vector<char> ring;
    size_t first;  // byte of the oldest record
    size_t bytes;  // of all records
    uint32_t count;
};

Channel channels[kMostDevices];

bool has_short_records() { return settings().soc_name.find("950") != std::string::npos; }

// What the profiler asks for; a pointer to it comes with the start, and its size tells the two generations apart.
struct StartParameters {
    int32_t channel_type;
    uint32_t sample_period;
    uint32_t real_time;
    const void* user_data;
    uint32_t user_data_bytes;
};
static_assert(sizeof(StartParameters) == 32);

Channel* find_channel(unsigned device, unsigned channel) {
    return device < settings().devices && channel == kStarsChannel ? &channels[device] : nullptr;
}

// With the guard held. A full ring loses what comes.
void put(Channel& channel, const void* record, size_t bytes) {
    if (channel.bytes + bytes > kRingBytes) return;
    std::memcpy(channel.ring.data() + (channel.first + channel.bytes) % kRingBytes, record, bytes);
    channel.bytes += bytes;
}

}  // namespace
}  // namespace virtual_npu

using namespace virtual_npu;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED uint64_t virtual_npu_device_counter() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t nanoseconds =
        static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
    return has_short_records() ? nanoseconds : nanoseconds / 20;
}

// All devices of the machine, whatever a process may see.
EXPORTED int drvGetDevNum(uint32_t* count) {
    if (count == nullptr) return DRV_ERROR_INVALID_VALUE;
    *count = settings().devices;
    return DRV_ERROR_NONE;
}

EXPORTED int halGetDeviceInfo(uint32_t device, int32_t, int32_t information, int64_t* value) {
    if (device >= settings().devices || value == nullptr) return DRV_ERROR_INVALID_VALUE;
    switch (information) {
        case kInformationVersion:
            *value = has_short_records() ? 0x0f00 : 0x0500;
            return DRV_ERROR_NONE;
        case kInformationCounter:
            *value = static_cast<int64_t>(virtual_npu_device_counter());
            return DRV_ERROR_NONE;
        case kInformationFrequency:
            *value = has_short_records() ? 1'000'000 : 50'000;
            return DRV_ERROR_NONE;
        default:
            return DRV_ERROR_INVALID_VALUE;
    }
}

EXPORTED int prof_drv_start(unsigned device, unsigned number, void* parameters) {
    Channel* channel = find_channel(device, number);
    const auto* asked = static_cast<const StartParameters*>(parameters);
    if (channel == nullptr || asked == nullptr || asked->channel_type != 0 || asked->user_data == nullptr ||
        asked->user_data_bytes != (has_short_records() ? 44u : 36u)) {
        return DRV_ERROR_INVALID_VALUE;
    }
    const std::lock_guard<std::mutex> lock(channel->guard);
    channel->ring.resize(kRingBytes);
    channel->first = 0;
    channel->bytes = 0;
    channel->started = true;
    return DRV_ERROR_NONE;
}

EXPORTED int prof_channel_read(unsigned device, unsigned number, char* buffer, unsigned buffer_bytes) {
    Channel* channel = find_channel(device, number);
    if (channel == nullptr || buffer == nullptr) return -1;
    const std::lock_guard<std::mutex> lock(channel->guard);
    const size_t record_bytes = has_short_records() ? sizeof(ShortRecord) : sizeof(LongRecord);
    size_t taken = 0;
    while (channel->bytes > 0 && taken + record_bytes <= buffer_bytes) {
        std::memcpy(buffer + taken, channel->ring.data() + channel->first, record_bytes);
        channel->first = (channel->first + record_bytes) % kRingBytes;
        channel->bytes -= record_bytes;
        taken += record_bytes;
    }
    return static_cast<int>(taken);
}

EXPORTED int prof_stop(unsigned device, unsigned number) {
    Channel* channel = find_channel(device, number);
    if (channel == nullptr) return DRV_ERROR_INVALID_VALUE;
    const std::lock_guard<std::mutex> lock(channel->guard);
    channel->started = false;  // what was logged can still be read
    return DRV_ERROR_NONE;
}

EXPORTED void virtual_npu_report_task(uint32_t device, uint32_t stream, uint32_t task, bool ends) {
    Channel* channel = find_channel(device, kStarsChannel);
    if (channel == nullptr) return;
    const uint64_t counter = virtual_npu_device_counter();
    const std::lock_guard<std::mutex> lock(channel->guard);
    if (!channel->started) return;
    // In the first word: 6 bits what happened (0 begins, 1 ends), 4 bits a counter, 6 bits the task's type, 16 bits
    // magic.
    const uint32_t head = (ends ? 1u : 0u) | ((channel->count++ & 0xf) << 6) | (kMagic << 16);
    if (has_short_records()) {
        const ShortRecord record{head, task, counter, 0, {}};
        put(*channel, &record, sizeof record);
    } else {
        const LongRecord record{head,
                                static_cast<uint16_t>(stream & 0x7ff),
                                static_cast<uint16_t>(task),
                                static_cast<uint32_t>(counter),
                                static_cast<uint32_t>(counter >> 32),
                                0,
                                {}};
        put(*channel, &record, sizeof record);
    }
}
