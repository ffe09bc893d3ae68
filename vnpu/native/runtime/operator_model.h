// The objects of the older operator interface (aclop). The caller sees pointers only; the layouts are ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct aclTensorDesc {
    int data_type;
    int format;
    std::vector<int64_t> sizes;
    std::string name;
    int placement;
};
struct aclDataBuffer {
    void* data;
    size_t bytes;
};
struct aclopAttr {
    std::map<std::string, std::string> values;  // as text: numbers in decimal, flags 0 or 1, lists with commas
};
