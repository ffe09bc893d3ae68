// How many bytes of each device are taken, and by which module. One mutex: the driver is called once per segment of a
// caching allocator, not once per tensor.
#pragma once

#include <cstdint>

namespace virtual_npu {

// False if the device does not have that many bytes left, or an injected fault says so; nothing is taken then.
bool take_memory(uint32_t device, uint32_t module, uint64_t bytes);
void give_memory_back(uint32_t device, uint32_t module, uint64_t bytes);

}  // namespace virtual_npu
