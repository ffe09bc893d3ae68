// Pools that announce their memory through mstx, as ATB and torch_npu do.
#pragma once

#include <cstdint>
#include <vector>

namespace fake_atb {

struct Range {
    std::uint32_t device;
    const void* address;
    std::uint64_t bytes;
};

// Null without libms_tools_ext.so, and if no tool takes the domain.
void* create_domain(const char* name);

void* register_heap(void* domain, const Range& range);
void unregister_heap(void* domain, void* heap);
std::vector<void*> register_regions(void* domain, void* heap, const std::vector<Range>& ranges);
void unregister_regions(void* domain, const std::vector<void*>& handles);

}  // namespace fake_atb
