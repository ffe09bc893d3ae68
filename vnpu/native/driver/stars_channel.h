// The device's log of tasks, which a profiler reads: channel 50 of the driver (STARS). The runtime reports here when a
// task begins and ends; nothing is kept while nobody has started the channel.
#pragma once

#include <cstdint>

extern "C" {

int prof_drv_start(unsigned device, unsigned channel, void* parameters);
// Bytes read, 0 if there is nothing, negative on failure. Whole records only.
int prof_channel_read(unsigned device, unsigned channel, char* buffer, unsigned buffer_bytes);
int prof_stop(unsigned device, unsigned channel);
int halGetDeviceInfo(uint32_t device, int32_t module, int32_t information, int64_t* value);

// Not of the real driver: the device's clock, and what the emulated runtime tells of tasks.
uint64_t virtual_npu_device_counter();
void virtual_npu_report_task(uint32_t device, uint32_t stream, uint32_t task, bool ends);

}  // extern "C"

namespace virtual_npu {

constexpr unsigned kStarsChannel = 50;

// What halGetDeviceInfo answers.
enum DeviceInformation : int32_t {
    kInformationVersion = 1,    // the chip's number in bits 8 to 15
    kInformationCounter = 13,   // the clock's value
    kInformationFrequency = 25  // the clock's frequency, in kHz
};

}  // namespace virtual_npu
