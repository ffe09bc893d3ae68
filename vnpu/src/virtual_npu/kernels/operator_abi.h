// The interface between libopapi.so and a library of kernels. It is plain data, with no type of libtorch and none of
// the C++ library: different compilers build the two at different times. A change here changes kKernelAbiVersion.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

// The opaque objects of the aclnn interface. The caller sees pointers only; the layouts are ours. Each begins with a
// word that says what it is. Some functions take a scalar in one version of CANN and a tensor in the next.
namespace virtual_npu {

enum class ObjectKind : uint32_t {
    kTensor = 0x746e7374,
    kScalar = 0x6c616373,
    kIntArray = 0x61746e69,
    kFloatArray = 0x61746c66,
    kBoolArray = 0x616c6f62,
    kTensorList = 0x6c736e74,
    kScalarList = 0x6c6c6373,
    kAttributes = 0x72747461,
    kExecution = 0x63657865,
};

// aclDataType, the values in use.
enum DataType : int32_t {
    kFloat = 0,
    kFloat16 = 1,
    kInt8 = 2,
    kInt32 = 3,
    kUint8 = 4,
    kInt16 = 6,
    kUint16 = 7,
    kUint32 = 8,
    kInt64 = 9,
    kUint64 = 10,
    kDouble = 11,
    kBool = 12,
    kComplex64 = 16,
    kComplex128 = 17,
    kBfloat16 = 27,
    kComplex32 = 33,
};

// Who still needs an object: its maker, until it destroys it, and work that runs later than the call that got it.
struct Owners {
    Owners() = default;
    Owners(const Owners&) {}  // a copy is another object
    Owners& operator=(const Owners&) { return *this; }
    std::atomic<uint32_t> count{1};
};

}  // namespace virtual_npu

struct aclTensor {
    virtual_npu::ObjectKind kind;
    virtual_npu::Owners owners;
    int32_t data_type;
    int32_t format;
    uint32_t dimensions;
    int64_t offset;  // elements from `storage` to the first one of the view
    void* storage;
    int64_t* sizes;  // `dimensions` numbers each, owned
    int64_t* strides;
    int64_t storage_elements;
};

struct aclScalar {
    virtual_npu::ObjectKind kind;
    virtual_npu::Owners owners;
    int32_t data_type;
    alignas(16) unsigned char value[16];  // as the data type has it; complex128 is the largest
};

template <typename Element, virtual_npu::ObjectKind Kind>
struct aclArray {
    static constexpr virtual_npu::ObjectKind kKind = Kind;
    virtual_npu::ObjectKind kind;
    virtual_npu::Owners owners;
    uint64_t count;
    Element* elements;  // owned
};

using aclIntArray = aclArray<int64_t, virtual_npu::ObjectKind::kIntArray>;
using aclFloatArray = aclArray<float, virtual_npu::ObjectKind::kFloatArray>;
using aclBoolArray = aclArray<bool, virtual_npu::ObjectKind::kBoolArray>;
using aclTensorList = aclArray<const aclTensor*, virtual_npu::ObjectKind::kTensorList>;  // owns the tensors
using aclScalarList = aclArray<const aclScalar*, virtual_npu::ObjectKind::kScalarList>;  // owns the scalars

// The attributes of an operator of the older interface, where it is known by its name: values as text, "2", "0.5",
// "0,1".
struct aclAttributes {
    virtual_npu::ObjectKind kind;
    const void* values;
    const char* (*find)(const void* values, const char* name);  // null for an attribute that was not set
};

namespace virtual_npu {

constexpr uint32_t kKernelAbiVersion = 3;

// Status codes of aclnn functions.
enum Status : int {
    kSuccess = 0,
    kInvalidArgument = 161002,
    kRuntimeError = 361001,
    kInnerError = 561000,
    kKernelMissing = 561107,
};

// The record that phase one (aclnnXGetWorkspaceSize) leaves for phase two (aclnnX). The arguments belong to the caller,
// who keeps them until phase two has returned. Where the work is done later, or more than once, `share` comes first.
struct Execution {
    ObjectKind kind;
    const char* function;  // "aclnnAdd", static
    // Returns a Status; on failure a text is in `message`, which is always terminated. Both never throw.
    int (*run)(Execution* self, char* message, size_t message_size);
    void (*destroy)(Execution* self);
    // From now on the arguments are owned by the execution too. The number says whether this was done.
    void (*share)(Execution* self);
    uint32_t is_shared;
    // Where the last output ends, for the injected fault that writes behind it; null without outputs.
    void* (*end_of_output)(const Execution* self);
};

struct KernelDescription {
    const char* function;  // without "GetWorkspaceSize"
    const char* source;    // the file that has it
    void (*plan)();        // phase one, in truth with the arguments of the function, uint64_t*, void**
};

struct KernelTable {
    uint32_t abi_version;
    uint32_t count;
    const KernelDescription* kernels;
};

// The services of libopapi.so for the kernels.
struct KernelHost {
    uint64_t workspace_bytes;  // what a kernel with a workspace asks for
    // Success, or the status with which phase one has to end because the calling thread's device has failed.
    int (*device_status)();
    // Leaves the text of why phase one refuses its arguments; returns the status with which it has to end.
    int (*refuse)(const char* text);
    // The two ends of owning an argument along with its maker; null is no object.
    void (*share)(const void* object);
    void (*release)(const void* object);
    void (*set_view_shape)(aclTensor* tensor, const int64_t* sizes, uint64_t dimensions);  // contiguous strides
};

// The one exported function of a library of kernels, "virtual_npu_kernels".
using KernelsEntry = const KernelTable* (*)(const KernelHost* host);

}  // namespace virtual_npu
