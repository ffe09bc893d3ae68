// Phase one finds out whether phase two can work. It rehearses the kernel on stand-ins for the caller's tensors, whose
// data is not there yet. So an exception of the kernel is known at the call, before anything is on the device.
//
// A call is rehearsed on shapes alone where libtorch can do that (meta tensors). Not every operator can. Shapes do not
// tell for which data types the CPU has code. So kernels are also rehearsed on zeros: each once for each combination of
// data types. Kernels whose shapes do not suffice are rehearsed for every combination of arguments. Values can be wrong
// in their own way (a division by zero). So where zeros fail, other values are tried. A call that fails with all of
// them is refused.
//
// Accepted calls are remembered by a hash of shapes, strides, data types and plain values: nothing is rehearsed twice.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "operator_abi.h"

namespace virtual_npu {

bool is_rehearsing();
// The stand-in for one of the caller's tensors while this thread rehearses; undefined while it does not.
at::Tensor stand_in_for(const aclTensor& tensor, at::ScalarType type);

// For kernels that read memory themselves: while shapes are rehearsed, there is none.
void require_data(const at::Tensor& tensor);
// For kernels whose other arguments have to fit to what the data says: not to be rehearsed from here on.
void require_true_data();

// The facts that decide whether the arguments of a call are right.
class Signature {
public:
    explicit Signature(const void* kernel) : all_(reinterpret_cast<uintptr_t>(kernel)), types_(all_) {}

    void add(const aclTensor* tensor);
    void add(const aclScalar* scalar);
    void add_factor(const aclScalar* scalar);  // by sign and magnitude alone
    void add(const aclTensorList* list) { add_array(list); }
    void add(const aclScalarList* list) { add_array(list); }
    void add(const aclIntArray* array) { add_array(array); }
    void add(const aclFloatArray* array) { add_array(array); }
    void add(const aclBoolArray* array) { add_array(array); }
    void add_factors(const void* object);  // a scalar, a list of them, or a tensor
    void add(const std::string& text);
    void add(int32_t number) { mix_type(static_cast<uint32_t>(number)); }  // most are data types
    template <typename Number>
    std::enable_if_t<std::is_arithmetic_v<Number>> add(Number number) {
        uint64_t bits = 0;
        std::memcpy(&bits, &number, sizeof number);
        mix(bits);
    }

    uint64_t all() const { return all_; }
    uint64_t types() const { return types_; }  // of data types, numbers of dimensions and magnitudes alone
    bool has_empty_tensor() const { return has_empty_tensor_; }
    bool has_wrong_object() const { return has_wrong_object_; }  // such as a scalar in the place of a tensor

private:
    static uint64_t mixed(uint64_t hash, uint64_t value) {
        hash = (hash ^ value) * 0x9e3779b97f4a7c15;
        return hash ^ hash >> 32;
    }
    void mix(uint64_t value) { all_ = mixed(all_, value); }
    void mix_type(uint64_t value) {
        types_ = mixed(types_, value);
        mix(value);
    }
    template <typename Object>
    bool is_object(const Object* object, ObjectKind kind) {
        const bool right = object == nullptr || object->kind == kind;
        has_wrong_object_ = has_wrong_object_ || !right;
        return right;
    }
    template <typename Array>
    void add_array(const Array* array) {
        if (!is_object(array, Array::kKind)) return;
        mix(array == nullptr ? UINT64_MAX : array->count);
        for (uint64_t index = 0; array != nullptr && index < array->count; ++index) add(array->elements[index]);
    }

    uint64_t all_;
    uint64_t types_;
    bool has_empty_tensor_ = false;
    bool has_wrong_object_ = false;
};

// A call of a kernel, to be rehearsed.
struct PlannedCall {
    const char* function;
    void (*compute)(void* arguments);
    void* arguments;
    std::atomic<bool>* needs_data;  // of the kernel: shapes do not suffice
};

bool is_accepted(const Signature& signature);
// A Status; after a refusal the host has the text.
int rehearse(const PlannedCall& call, const Signature& signature);

}  // namespace virtual_npu
