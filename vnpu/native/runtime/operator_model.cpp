// The older operator interface (aclop): an operator by its name, with descriptions of its tensors. torch_npu uses it
// where an aclnn function is missing, or does not take the arguments. See graph_engine/op_compiler.cpp.
#include "operator_model.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime_errors.h"

using virtual_npu::fail;
using virtual_npu::kAclInvalidParameter;
using virtual_npu::kAclSuccess;

namespace {

int set(aclopAttr* attributes, const char* name, std::string value) {
    attributes->values[name] = std::move(value);
    return kAclSuccess;
}

// Enough digits to read the same number back.
std::string decimal(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
}

template <typename Element, typename Spell>
std::string joined(int count, const Element* elements, Spell spell) {
    std::string list;
    for (int index = 0; index < count; ++index) list += (index > 0 ? "," : "") + spell(elements[index]);
    return list;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED aclTensorDesc* aclCreateTensorDesc(int data_type, int dimensions, const int64_t* sizes, int format) {
    return new aclTensorDesc{data_type, format, std::vector<int64_t>(sizes, sizes + std::max(dimensions, 0)), {}, 0};
}
EXPORTED void aclDestroyTensorDesc(const aclTensorDesc* description) { delete description; }
EXPORTED int aclGetTensorDescType(const aclTensorDesc* description) { return description->data_type; }
EXPORTED int aclGetTensorDescFormat(const aclTensorDesc* description) { return description->format; }
EXPORTED size_t aclGetTensorDescNumDims(const aclTensorDesc* description) { return description->sizes.size(); }
EXPORTED int aclGetTensorDescDimV2(const aclTensorDesc* description, size_t dimension, int64_t* size) {
    if (dimension >= description->sizes.size())
        return fail(kAclInvalidParameter, "EE1001: no dimension %zu", dimension);
    *size = description->sizes[dimension];
    return kAclSuccess;
}
EXPORTED void aclSetTensorDescName(aclTensorDesc* description, const char* name) { description->name = name; }
EXPORTED int aclSetTensorFormat(aclTensorDesc* description, int format) {
    description->format = format;
    return kAclSuccess;
}
EXPORTED int aclSetTensorShape(aclTensorDesc* description, int dimensions, const int64_t* sizes) {
    description->sizes.assign(sizes, sizes + std::max(dimensions, 0));
    return kAclSuccess;
}
EXPORTED int aclSetTensorPlaceMent(aclTensorDesc* description, int placement) {
    description->placement = placement;
    return kAclSuccess;
}

EXPORTED aclDataBuffer* aclCreateDataBuffer(void* data, size_t bytes) { return new aclDataBuffer{data, bytes}; }
EXPORTED int aclDestroyDataBuffer(const aclDataBuffer* buffer) {
    delete buffer;
    return kAclSuccess;
}

EXPORTED aclopAttr* aclopCreateAttr() { return new aclopAttr; }
EXPORTED void aclopDestroyAttr(const aclopAttr* attributes) { delete attributes; }
EXPORTED int aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value) {
    return set(attributes, name, value != 0 ? "1" : "0");
}
EXPORTED int aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value) {
    return set(attributes, name, std::to_string(value));
}
EXPORTED int aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value) {
    return set(attributes, name, decimal(value));
}
EXPORTED int aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value) {
    return set(attributes, name, value);
}
EXPORTED int aclopSetAttrDataType(aclopAttr* attributes, const char* name, int value) {
    return set(attributes, name, std::to_string(value));
}
EXPORTED int aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values) {
    return set(attributes, name, joined(count, values, [](int64_t value) { return std::to_string(value); }));
}
EXPORTED int aclopSetAttrListFloat(aclopAttr* attributes, const char* name, int count, const float* values) {
    return set(attributes, name, joined(count, values, decimal));
}
EXPORTED int aclopSetAttrListBool(aclopAttr* attributes, const char* name, int count, const uint8_t* values) {
    return set(attributes, name,
               joined(count, values, [](uint8_t value) { return std::string(value != 0 ? "1" : "0"); }));
}
// Lists of lists are accepted: no operator here looks at one.
EXPORTED int aclopSetAttrListListInt(aclopAttr*, const char*, int, const int*, const int64_t* const*) {
    return kAclSuccess;
}
