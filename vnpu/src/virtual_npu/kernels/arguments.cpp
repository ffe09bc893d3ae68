#include "arguments.h"

#include <cstring>
#include <sstream>
#include <stdexcept>

#include "rehearsal.h"

namespace virtual_npu {
namespace {

template <typename Object>
void require_present(const Object* object, const char* what) {
    if (object == nullptr) throw std::invalid_argument(std::string("a ") + what + " is missing");
}

void require_castable(at::ScalarType from, at::ScalarType to) {
    if (at::canCast(from, to)) return;
    throw std::invalid_argument(std::string("result type ") + c10::toString(from) +
                                " can't be cast to the desired output type " + c10::toString(to));
}

}  // namespace

at::ScalarType element_type(int32_t data_type) {
    switch (data_type) {
        case kFloat:
            return at::kFloat;
        case kFloat16:
            return at::kHalf;
        case kInt8:
            return at::kChar;
        case kInt32:
            return at::kInt;
        case kUint8:
            return at::kByte;
        case kInt16:
            return at::kShort;
        case kUint16:
            return at::kUInt16;
        case kUint32:
            return at::kUInt32;
        case kInt64:
            return at::kLong;
        case kUint64:
            return at::kUInt64;
        case kDouble:
            return at::kDouble;
        case kBool:
            return at::kBool;
        case kComplex32:
            return at::kComplexHalf;
        case kComplex64:
            return at::kComplexFloat;
        case kComplex128:
            return at::kComplexDouble;
        case kBfloat16:
            return at::kBFloat16;
        default:
            throw std::invalid_argument("data type " + std::to_string(data_type) + " is not known here");
    }
}

int32_t data_type_of(at::ScalarType type) {
    switch (type) {
        case at::kFloat:
            return kFloat;
        case at::kHalf:
            return kFloat16;
        case at::kChar:
            return kInt8;
        case at::kInt:
            return kInt32;
        case at::kByte:
            return kUint8;
        case at::kShort:
            return kInt16;
        case at::kLong:
            return kInt64;
        case at::kDouble:
            return kDouble;
        case at::kBool:
            return kBool;
        case at::kComplexHalf:
            return kComplex32;
        case at::kComplexFloat:
            return kComplex64;
        case at::kComplexDouble:
            return kComplex128;
        case at::kBFloat16:
            return kBfloat16;
        default:
            throw std::invalid_argument(std::string("data type ") + c10::toString(type) + " is not known here");
    }
}

at::Tensor tensor_of(const aclTensor* tensor) {
    require_present(tensor, "tensor");
    if (tensor->kind != ObjectKind::kTensor) throw std::invalid_argument("an argument is not a tensor");
    const at::ScalarType type = element_type(tensor->data_type);
    if (at::Tensor stand_in = stand_in_for(*tensor, type); stand_in.defined()) return stand_in;
    char* first = static_cast<char*>(tensor->storage) + tensor->offset * static_cast<int64_t>(c10::elementSize(type));
    return at::from_blob(first, at::IntArrayRef(tensor->sizes, tensor->dimensions),
                         at::IntArrayRef(tensor->strides, tensor->dimensions), at::TensorOptions().dtype(type));
}

at::Tensor widened(const at::Tensor& tensor) {
    return at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

std::optional<at::Tensor> widened(const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() ? std::optional<at::Tensor>(widened(*tensor)) : tensor;
}

at::Scalar scalar_of(const aclScalar* scalar) {
    require_present(scalar, "scalar");
    if (scalar->kind != ObjectKind::kScalar) throw std::invalid_argument("an argument is not a scalar");
    const auto read = [scalar](auto value) {
        std::memcpy(&value, scalar->value, sizeof value);
        return value;
    };
    switch (scalar->data_type) {
        case kDouble:
            return read(double());
        case kFloat:
            return read(float());
        case kFloat16:
            return static_cast<float>(read(at::Half()));
        case kBfloat16:
            return static_cast<float>(read(at::BFloat16()));
        case kInt64:
            return read(int64_t());
        case kInt32:
            return read(int32_t());
        case kInt16:
            return read(int16_t());
        case kInt8:
            return read(int8_t());
        case kUint8:
            return read(uint8_t());
        case kBool:
            return scalar->value[0] != 0;
        case kComplex64:
            return read(c10::complex<float>());
        case kComplex128:
            return read(c10::complex<double>());
        default:
            throw std::invalid_argument("a scalar of data type " + std::to_string(scalar->data_type) +
                                        " is not known here");
    }
}

ScalarOrTensor Argument<ScalarOrTensor>::convert(const void* value) {
    require_present(value, "scalar");
    if (*static_cast<const ObjectKind*>(value) == ObjectKind::kScalar) {
        return {scalar_of(static_cast<const aclScalar*>(value))};
    }
    return {tensor_of(static_cast<const aclTensor*>(value)).item()};
}

IntList Argument<IntList>::convert(const aclIntArray* value) {
    return value == nullptr ? IntList() : IntList(value->elements, value->elements + value->count);
}

FloatList Argument<FloatList>::convert(const aclFloatArray* value) {
    return value == nullptr ? FloatList() : FloatList(value->elements, value->elements + value->count);
}

BoolList Argument<BoolList>::convert(const aclBoolArray* value) {
    return value == nullptr ? BoolList() : BoolList(value->elements, value->elements + value->count);
}

TensorList Argument<TensorList>::convert(const aclTensorList* value) {
    TensorList tensors;
    for (uint64_t index = 0; value != nullptr && index < value->count; ++index) {
        tensors.push_back(tensor_of(value->elements[index]));
    }
    return tensors;
}

OptionalTensorList Argument<OptionalTensorList>::convert(const aclTensorList* value) {
    OptionalTensorList tensors;
    for (uint64_t index = 0; value != nullptr && index < value->count; ++index) {
        const aclTensor* tensor = value->elements[index];
        // The caller marks "no index in this dimension" by a tensor of shape (0).
        const bool absent = tensor == nullptr || (tensor->dimensions == 1 && tensor->sizes[0] == 0);
        tensors.push_back(absent ? OptionalTensor() : OptionalTensor(tensor_of(tensor)));
    }
    return tensors;
}

ScalarList Argument<ScalarList>::convert(const aclScalarList* value) {
    ScalarList scalars;
    for (uint64_t index = 0; value != nullptr && index < value->count; ++index) {
        scalars.push_back(scalar_of(value->elements[index]));
    }
    return scalars;
}

Output& Output::operator=(const at::Tensor& value) {
    if (target_ == nullptr) return *this;
    if (value.numel() == 0 && tensor().numel() == 0) return *this;
    if (value.sizes() != sizes()) {
        std::ostringstream text;
        text << "the result has the shape " << value.sizes() << ", its output " << sizes();
        throw std::invalid_argument(text.str());
    }
    require_castable(value.scalar_type(), type());
    tensor().copy_(value);
    return *this;
}

void Output::assign_resized(const at::Tensor& value) {
    if (target_ == nullptr || is_rehearsing()) return;
    if (value.numel() > target_->storage_elements - target_->offset) {
        throw std::length_error("the result does not fit into its output");
    }
    require_castable(value.scalar_type(), type());
    host().set_view_shape(target_, value.sizes().data(), value.sizes().size());
    tensor().copy_(value);
}

Output OutputList::operator[](size_t index) const {
    if (index >= size()) throw std::out_of_range("a list of outputs is too short");
    return Output(const_cast<aclTensor*>(target_->elements[index]));
}

OutputList& OutputList::operator=(const std::vector<at::Tensor>& values) {
    if (target_ == nullptr) return *this;
    if (values.size() != size()) throw std::out_of_range("a list of outputs is not as long as the results");
    for (size_t index = 0; index < values.size(); ++index) (*this)[index] = values[index];
    return *this;
}

Text Attributes::text(const char* name) const {
    const char* value = attributes_->find(attributes_->values, name);
    return value == nullptr ? Text() : Text(value);
}

double Attributes::number(const char* name, double otherwise) const {
    const Text value = text(name);
    return value.empty() ? otherwise : std::stod(std::string(value));
}

IntList Attributes::list(const char* name) const {
    IntList numbers;
    std::istringstream parts{std::string(text(name))};
    for (std::string part; std::getline(parts, part, ',');) numbers.push_back(std::stoll(part));
    return numbers;
}

}  // namespace virtual_npu
