// Where memory of devices lies: at the lowest addresses from one on that are free and large enough, as multiples of
// 2 MiB. A program that asks for the same gets the same addresses, and a model of its allocator can know them.
#pragma once

#include <cstdint>

namespace virtual_npu {

constexpr uint64_t kGranule = uint64_t{2} << 20;  // the size of the device's huge pages
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kFirstDeviceAddress = uint64_t{0x10} << 32;  // others are the sanitizer's own
#else
constexpr uint64_t kFirstDeviceAddress = uint64_t{0x12} << 40;
#endif

// Anonymous memory of whole granules, null if there is none. Where the machine has something else in the place, or no
// such addresses, it lies where the machine puts it.
void* take_addresses(uint64_t bytes, int protection);
void give_addresses_back(void* begin, uint64_t bytes);

}  // namespace virtual_npu
