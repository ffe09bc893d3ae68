// Arithmetic of two or three operands, element by element: sums, products, quotients, powers, bounds, interpolation.
//
// Names end in "s" (Adds), "Scalar" or nothing where the second operand is an aclScalar. They begin with "Inplace"
// where the first operand is also the result. The caller broadcasts and promotes beforehand or leaves it to the
// function. A kernel does it anyway, as libtorch does.
#include <cmath>

#include "kernel.h"

namespace virtual_npu {
namespace {

// Rounding modes of aclnnDivMod; the caller passes an int.
std::optional<std::string_view> rounding_mode(int32_t mode) {
    switch (mode) {
        case 0:
            return std::nullopt;
        case 1:
            return "trunc";
        case 2:
            return "floor";
        default:
            throw std::invalid_argument("rounding mode " + std::to_string(mode) + " is not known here");
    }
}

Tensor quotient(const Tensor& self, const Tensor& other, int32_t mode) {
    return at::div(self, other, rounding_mode(mode));
}

Tensor quotient(const Tensor& self, const Scalar& other, int32_t mode) {
    return at::div(self, other, rounding_mode(mode));
}

// Callers give bounds of whole numbers as floating point too, and expect whole numbers. A bound that is none, such as
// 1.5, stays as it is, and its result fits into no output of whole numbers.
Scalar bound_for(const Tensor& self, const Scalar& bound) {
    constexpr double kExact = 1LL << 53;
    if (!bound.isFloatingPoint() || !at::isIntegralType(self.scalar_type(), false)) return bound;
    const double value = bound.toDouble();
    if (std::trunc(value) != value || std::abs(value) > kExact) return bound;
    return static_cast<int64_t>(value);
}

}  // namespace

#define BINARY_TENSOR(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Tensor other, Output result)) { result = COMPUTE(self, other); }
#define BINARY_TENSOR_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self, Tensor other)) { self = COMPUTE(self.tensor(), other); }
#define BINARY_SCALAR(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Scalar other, Output result)) { result = COMPUTE(self, other); }
#define BINARY_SCALAR_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self, Scalar other)) { self = COMPUTE(self.tensor(), other); }
#define BINARY_FACTOR(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Factor other, Output result)) { result = COMPUTE(self, other); }
#define BINARY_FACTOR_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self, Factor other)) { self = COMPUTE(self.tensor(), other); }

// Sums and differences, with a factor for the second operand.
KERNEL(aclnnAdd, (Tensor self, Tensor other, Factor alpha, Output result)) { result = at::add(self, other, alpha); }
KERNEL(aclnnInplaceAdd, (Output self, Tensor other, Factor alpha)) { self = at::add(self.tensor(), other, alpha); }
KERNEL(aclnnAdds, (Tensor self, Factor other, Factor alpha, Output result)) { result = at::add(self, other, alpha); }
KERNEL(aclnnInplaceAdds, (Output self, Factor other, Factor alpha)) { self = at::add(self.tensor(), other, alpha); }
KERNEL(aclnnAddV3, (Scalar self, Tensor other, Factor alpha, Output result)) {
    result = at::add(at::scalar_tensor(self, other.options().dtype(result.type())), other, alpha);
}
KERNEL(aclnnSub, (Tensor self, Tensor other, Factor alpha, Output result)) { result = at::sub(self, other, alpha); }
KERNEL(aclnnInplaceSub, (Output self, Tensor other, Factor alpha)) { self = at::sub(self.tensor(), other, alpha); }
KERNEL(aclnnSubs, (Tensor self, Factor other, Factor alpha, Output result)) { result = at::sub(self, other, alpha); }
KERNEL(aclnnInplaceSubs, (Output self, Factor other, Factor alpha)) { self = at::sub(self.tensor(), other, alpha); }
KERNEL(aclnnRsub, (Tensor self, Tensor other, Factor alpha, Output result)) { result = at::rsub(self, other, alpha); }
KERNEL(aclnnRsubs, (Tensor self, Factor other, Factor alpha, Output result)) { result = at::rsub(self, other, alpha); }
KERNEL(aclnnAddRelu, (Tensor self, Tensor other, Factor alpha, Output result)) {
    result = at::relu(at::add(self, other, alpha));
}
KERNEL(aclnnInplaceAddRelu, (Output self, Tensor other, Factor alpha)) {
    self = at::relu(at::add(self.tensor(), other, alpha));
}

BINARY_TENSOR(aclnnMul, at::mul)
BINARY_TENSOR_INPLACE(aclnnInplaceMul, at::mul)
BINARY_FACTOR(aclnnMuls, at::mul)
BINARY_FACTOR_INPLACE(aclnnInplaceMuls, at::mul)

// Quotients and remainders.
BINARY_TENSOR(aclnnDiv, at::div)
BINARY_TENSOR_INPLACE(aclnnInplaceDiv, at::div)
BINARY_FACTOR(aclnnDivs, at::div)
BINARY_FACTOR_INPLACE(aclnnInplaceDivs, at::div)
KERNEL(aclnnDivMod, (Tensor self, Tensor other, int32_t mode, Output result)) { result = quotient(self, other, mode); }
KERNEL(aclnnInplaceDivMod, (Output self, Tensor other, int32_t mode)) { self = quotient(self.tensor(), other, mode); }
KERNEL(aclnnDivMods, (Tensor self, Scalar other, int32_t mode, Output result)) { result = quotient(self, other, mode); }
KERNEL(aclnnInplaceDivMods, (Output self, Scalar other, int32_t mode)) { self = quotient(self.tensor(), other, mode); }
BINARY_TENSOR(aclnnFloorDivide, at::floor_divide)
BINARY_TENSOR_INPLACE(aclnnInplaceFloorDivide, at::floor_divide)
BINARY_SCALAR(aclnnFloorDivides, at::floor_divide)
BINARY_SCALAR_INPLACE(aclnnInplaceFloorDivides, at::floor_divide)
BINARY_TENSOR(aclnnFmodTensor, at::fmod)
BINARY_TENSOR_INPLACE(aclnnInplaceFmodTensor, at::fmod)
BINARY_SCALAR(aclnnFmodScalar, at::fmod)
BINARY_SCALAR_INPLACE(aclnnInplaceFmodScalar, at::fmod)
BINARY_TENSOR(aclnnRemainderTensorTensor, at::remainder)
BINARY_TENSOR_INPLACE(aclnnInplaceRemainderTensorTensor, at::remainder)
BINARY_SCALAR(aclnnRemainderTensorScalar, at::remainder)
BINARY_SCALAR_INPLACE(aclnnInplaceRemainderTensorScalar, at::remainder)
KERNEL(aclnnRemainderScalarTensor, (Scalar self, Tensor other, Output result)) { result = at::remainder(self, other); }
BINARY_TENSOR(aclnnGcd, at::gcd)

// Powers and logarithms of two operands.
BINARY_TENSOR(aclnnPowTensorTensor, at::pow)
BINARY_TENSOR_INPLACE(aclnnInplacePowTensorTensor, at::pow)
BINARY_SCALAR(aclnnPowTensorScalar, at::pow)
BINARY_SCALAR_INPLACE(aclnnInplacePowTensorScalar, at::pow)
KERNEL(aclnnPowScalarTensor, (Scalar self, Tensor exponent, Output result)) { result = at::pow(self, exponent); }
BINARY_TENSOR(aclnnXLogYTensor, at::xlogy)
BINARY_SCALAR(aclnnXLogYScalarOther, at::xlogy)
BINARY_SCALAR_INPLACE(aclnnInplaceXLogYScalarOther, at::xlogy)
KERNEL(aclnnXLogYScalarSelf, (Scalar self, Tensor other, Output result)) { result = at::xlogy(self, other); }
BINARY_TENSOR(aclnnLogAddExp, at::logaddexp)
BINARY_TENSOR(aclnnLogAddExp2, at::logaddexp2)

BINARY_TENSOR(aclnnAtan2, at::atan2)
BINARY_TENSOR_INPLACE(aclnnInplaceAtan2, at::atan2)
BINARY_TENSOR(aclnnComplex, at::complex)
BINARY_TENSOR(aclnnPolar, at::polar)

// Bounds.
BINARY_TENSOR(aclnnMaximum, at::maximum)
BINARY_TENSOR(aclnnMinimum, at::minimum)
KERNEL(aclnnClampMin, (Tensor self, Scalar bound, Output result)) {
    result = at::clamp_min(self, bound_for(self, bound));
}
BINARY_TENSOR(aclnnClampMinTensor, at::clamp_min)
BINARY_TENSOR_INPLACE(aclnnInplaceClampMinTensor, at::clamp_min)
KERNEL(aclnnClampMax, (Tensor self, Scalar bound, Output result)) {
    result = at::clamp_max(self, bound_for(self, bound));
}
KERNEL(aclnnInplaceClampMax, (Output self, Scalar bound)) {
    self = at::clamp_max(self.tensor(), bound_for(self.tensor(), bound));
}
BINARY_TENSOR(aclnnClampMaxTensor, at::clamp_max)
BINARY_TENSOR_INPLACE(aclnnInplaceClampMaxTensor, at::clamp_max)
KERNEL(aclnnClamp, (Tensor self, OptionalScalar lower, OptionalScalar upper, Output result)) {
    if (lower.has_value()) lower = bound_for(self, *lower);
    if (upper.has_value()) upper = bound_for(self, *upper);
    result = at::clamp(self, lower, upper);
}
KERNEL(aclnnClampTensor, (Tensor self, OptionalTensor lower, OptionalTensor upper, Output result)) {
    result = at::clamp(self, lower, upper);
}

// Three operands.
KERNEL(aclnnSWhere, (Tensor condition, Tensor self, Tensor other, Output result)) {
    result = at::where(truth_values(condition), self, other);
}
KERNEL(aclnnLerp, (Tensor self, Tensor end, Tensor weight, Output result)) { result = at::lerp(self, end, weight); }
KERNEL(aclnnInplaceLerp, (Output self, Tensor end, Tensor weight)) { self = at::lerp(self.tensor(), end, weight); }
KERNEL(aclnnLerps, (Tensor self, Tensor end, Factor weight, Output result)) { result = at::lerp(self, end, weight); }
KERNEL(aclnnInplaceLerps, (Output self, Tensor end, Factor weight)) { self = at::lerp(self.tensor(), end, weight); }
KERNEL(aclnnAddcmul, (Tensor self, Tensor first, Tensor second, Factor value, Output result)) {
    result = at::addcmul(self, first, second, value);
}
KERNEL(aclnnInplaceAddcmul, (Output self, Tensor first, Tensor second, Factor value)) {
    self = at::addcmul(self.tensor(), first, second, value);
}
KERNEL(aclnnAddcdiv, (Tensor self, Tensor first, Tensor second, Factor value, Output result)) {
    result = at::addcdiv(self, first, second, value);
}
KERNEL(aclnnInplaceAddcdiv, (Output self, Tensor first, Tensor second, Factor value)) {
    self = at::addcdiv(self.tensor(), first, second, value);
}

}  // namespace virtual_npu
