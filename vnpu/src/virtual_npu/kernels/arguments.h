// The arguments of a kernel: tensors, scalars, lists and outputs of libtorch. They are made from the objects of the C
// interface. Each parameter type says here how it crosses that interface.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator_abi.h"

namespace virtual_npu {

using at::Scalar;
using at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;
using OptionalScalar = std::optional<at::Scalar>;
using IntList = std::vector<int64_t>;
using OptionalIntList = std::optional<IntList>;
using FloatList = std::vector<double>;
using BoolList = std::vector<bool>;
using TensorList = std::vector<at::Tensor>;
using OptionalTensorList = std::vector<std::optional<at::Tensor>>;  // undefined or empty placeholders are nullopt
using ScalarList = std::vector<at::Scalar>;
using ElementType = at::ScalarType;  // an aclDataType argument
using CubeMathType = int8_t;
using Text = std::string_view;

at::ScalarType element_type(int32_t data_type);
int32_t data_type_of(at::ScalarType type);
at::Tensor tensor_of(const aclTensor* tensor);
at::Scalar scalar_of(const aclScalar* scalar);
const KernelHost& host();  // what libopapi.so offers; see operator_abi.h

// The tensor in float where it has half precision, for what the CPU computes in float and double only.
at::Tensor widened(const at::Tensor& tensor);
std::optional<at::Tensor> widened(const std::optional<at::Tensor>& tensor);

// Where a result goes. A null pointer (an output that the caller does not want) is false and swallows what is assigned.
class Output {
public:
    explicit Output(aclTensor* target) : target_(target) {}
    explicit operator bool() const { return target_ != nullptr; }

    // The shape is the output's. The data type is converted as libtorch converts a result: not from floating point to
    // whole numbers, for instance.
    Output& operator=(const at::Tensor& value);
    // The same where the caller has another shape for as many elements.
    void assign_reshaped(const at::Tensor& value) { *this = target_ == nullptr ? value : value.reshape(sizes()); }
    at::IntArrayRef sizes() const { return at::IntArrayRef(target_->sizes, target_->dimensions); }
    at::Tensor tensor() const { return tensor_of(target_); }
    at::ScalarType type() const { return element_type(target_->data_type); }
    // For results whose size only the data decides (nonzero, unique): the caller has allocated the largest possible
    // output and reads the true shape afterwards.
    void assign_resized(const at::Tensor& value);

private:
    aclTensor* target_;
};

class OutputList {
public:
    explicit OutputList(const aclTensorList* target) : target_(target) {}
    explicit operator bool() const { return target_ != nullptr; }
    size_t size() const { return target_ == nullptr ? 0 : target_->count; }
    Output operator[](size_t index) const;
    OutputList& operator=(const std::vector<at::Tensor>& values);

private:
    const aclTensorList* target_;
};

// Arguments that are never wrong, and that may differ in every call. They do not count for whether a call was rehearsed
// before (rehearsal.h). A scalar that only scales something is such an argument. Only its sign and its magnitude count.
template <typename Number>
struct Any {
    Number value;
    operator Number() const { return value; }
};
using Seed = Any<int64_t>;
template <typename Parameter>
constexpr bool is_any = false;
template <typename Number>
constexpr bool is_any<Any<Number>> = true;

struct Factor {
    at::Scalar value;
    operator const at::Scalar&() const { return value; }
};

// An argument that is an aclScalar in one version of a function and a tensor of one element in another.
struct ScalarOrTensor {
    at::Scalar value;
};

// The attributes of an operator of the older interface. A kernel for such an operator has its name, and takes the
// inputs, the outputs and, last, these.
class Attributes {
public:
    explicit Attributes(const aclAttributes* attributes) : attributes_(attributes) {}
    Text text(const char* name) const;  // empty if not set
    double number(const char* name, double otherwise) const;
    bool flag(const char* name) const { return text(name) == "1"; }
    IntList list(const char* name) const;

private:
    const aclAttributes* attributes_;
};

// How each parameter type crosses the C interface, and what of it is kept from phase one to phase two. Objects stay
// alive that long; a text does not, so it is copied.
template <typename CType>
struct Kept {
    using Type = CType;
};
template <>
struct Kept<const char*> {
    using Type = std::string;
};

template <typename Parameter>
struct Argument {  // int64_t, double, float, bool, int8_t: as they are
    using CType = Parameter;
    static Parameter convert(CType value) { return value; }
};

template <>
struct Argument<at::Tensor> {
    using CType = const aclTensor*;
    static at::Tensor convert(CType value) { return tensor_of(value); }
};

template <>
struct Argument<OptionalTensor> {
    using CType = const aclTensor*;
    static OptionalTensor convert(CType value) {
        return value == nullptr ? OptionalTensor() : OptionalTensor(tensor_of(value));
    }
};

template <>
struct Argument<Output> {
    using CType = aclTensor*;
    static Output convert(CType value) { return Output(value); }
};

template <>
struct Argument<at::Scalar> {
    using CType = const aclScalar*;
    static at::Scalar convert(CType value) { return scalar_of(value); }
};

template <>
struct Argument<OptionalScalar> {
    using CType = const aclScalar*;
    static OptionalScalar convert(CType value) {
        return value == nullptr ? OptionalScalar() : OptionalScalar(scalar_of(value));
    }
};

template <>
struct Argument<ScalarOrTensor> {
    using CType = const void*;
    static ScalarOrTensor convert(CType value);
};

template <>
struct Argument<IntList> {
    using CType = const aclIntArray*;
    static IntList convert(CType value);
};

template <>
struct Argument<OptionalIntList> {
    using CType = const aclIntArray*;
    static OptionalIntList convert(CType value) {
        return value == nullptr ? OptionalIntList() : OptionalIntList(Argument<IntList>::convert(value));
    }
};

template <>
struct Argument<FloatList> {
    using CType = const aclFloatArray*;
    static FloatList convert(CType value);
};

template <>
struct Argument<BoolList> {
    using CType = const aclBoolArray*;
    static BoolList convert(CType value);
};

template <>
struct Argument<TensorList> {
    using CType = const aclTensorList*;
    static TensorList convert(CType value);
};

template <>
struct Argument<OptionalTensorList> {
    using CType = const aclTensorList*;
    static OptionalTensorList convert(CType value);
};

template <>
struct Argument<OutputList> {
    using CType = const aclTensorList*;
    static OutputList convert(CType value) { return OutputList(value); }
};

template <>
struct Argument<ScalarList> {
    using CType = const aclScalarList*;
    static ScalarList convert(CType value);
};

template <>
struct Argument<at::ScalarType> {
    using CType = int32_t;
    static at::ScalarType convert(CType value) { return element_type(value); }
};

template <typename Number>
struct Argument<Any<Number>> {
    using CType = Number;
    static Any<Number> convert(CType value) { return {value}; }
};

template <>
struct Argument<Factor> {
    using CType = const aclScalar*;
    static Factor convert(CType value) { return {scalar_of(value)}; }
};

template <>
struct Argument<Text> {
    using CType = const char*;
    static Text convert(const std::string& value) { return value; }
};

template <>
struct Argument<Attributes> {
    using CType = const aclAttributes*;
    static Attributes convert(CType value) { return Attributes(value); }
};

}  // namespace virtual_npu
