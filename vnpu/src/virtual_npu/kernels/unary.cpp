// Mathematics of one operand, element by element, and what only moves or converts elements (copy, cast).
#include "kernel.h"

namespace virtual_npu {
namespace {

// The caller passes -1 for "no bound".
std::optional<double> optional_bound(double epsilon) {
    return epsilon < 0 ? std::optional<double>() : std::optional<double>(epsilon);
}

Tensor replace_non_finite(const Tensor& self, float nan, float positive_infinity, float negative_infinity) {
    return at::nan_to_num(self, nan, positive_infinity, negative_infinity);
}

}  // namespace

#define UNARY(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Output result)) { result = COMPUTE(self); }
#define UNARY_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self)) { self = COMPUTE(self.tensor()); }

// Signs and rounding.
UNARY(aclnnAbs, at::abs)
UNARY(aclnnNeg, at::neg)
UNARY(aclnnSign, at::sgn)  // that of a complex number too
UNARY(aclnnSignbit, at::signbit)
UNARY(aclnnFloor, at::floor)
UNARY_INPLACE(aclnnInplaceFloor, at::floor)
UNARY(aclnnCeil, at::ceil)
UNARY_INPLACE(aclnnInplaceCeil, at::ceil)
UNARY(aclnnTrunc, at::trunc)
UNARY(aclnnFrac, at::frac)
UNARY_INPLACE(aclnnInplaceFrac, at::frac)
UNARY(aclnnRound, at::round)
KERNEL(aclnnRoundDecimals, (Tensor self, int64_t decimals, Output result)) { result = at::round(self, decimals); }
KERNEL(aclnnInplaceRoundDecimals, (Output self, int64_t decimals)) { self = at::round(self.tensor(), decimals); }

// Roots, exponentials, logarithms.
UNARY(aclnnSqrt, at::sqrt)
UNARY_INPLACE(aclnnInplaceSqrt, at::sqrt)
UNARY(aclnnRsqrt, at::rsqrt)
UNARY_INPLACE(aclnnInplaceRsqrt, at::rsqrt)
UNARY(aclnnReciprocal, at::reciprocal)
UNARY_INPLACE(aclnnInplaceReciprocal, at::reciprocal)
UNARY(aclnnExp, at::exp)
UNARY_INPLACE(aclnnInplaceExp, at::exp)
UNARY(aclnnExp2, at::exp2)
UNARY_INPLACE(aclnnInplaceExp2, at::exp2)
UNARY(aclnnExpm1, at::expm1)
UNARY_INPLACE(aclnnInplaceExpm1, at::expm1)
UNARY(aclnnLog, at::log)
UNARY_INPLACE(aclnnInplaceLog, at::log)
UNARY(aclnnLog2, at::log2)
UNARY_INPLACE(aclnnInplaceLog2, at::log2)
UNARY(aclnnLog10, at::log10)
UNARY_INPLACE(aclnnInplaceLog10, at::log10)
UNARY(aclnnLog1p, at::log1p)
UNARY_INPLACE(aclnnInplaceLog1p, at::log1p)
UNARY(aclnnErf, at::erf)
UNARY_INPLACE(aclnnInplaceErf, at::erf)
UNARY(aclnnErfc, at::erfc)
UNARY_INPLACE(aclnnInplaceErfc, at::erfc)
UNARY(aclnnErfinv, at::erfinv)
UNARY_INPLACE(aclnnInplaceErfinv, at::erfinv)
KERNEL(aclnnLogit, (Tensor self, double epsilon, Output result)) { result = at::logit(self, optional_bound(epsilon)); }
KERNEL(aclnnLogitGrad, (Tensor self, Tensor gradient, double epsilon, Output result)) {
    result = at::logit_backward(gradient, self, optional_bound(epsilon));
}

// Trigonometry.
UNARY(aclnnSin, at::sin)
UNARY_INPLACE(aclnnInplaceSin, at::sin)
UNARY(aclnnCos, at::cos)
UNARY_INPLACE(aclnnInplaceCos, at::cos)
UNARY(aclnnTan, at::tan)
UNARY_INPLACE(aclnnInplaceTan, at::tan)
UNARY(aclnnAsin, at::asin)
UNARY_INPLACE(aclnnInplaceAsin, at::asin)
UNARY(aclnnAcos, at::acos)
UNARY_INPLACE(aclnnInplaceAcos, at::acos)
UNARY(aclnnAtan, at::atan)
UNARY_INPLACE(aclnnInplaceAtan, at::atan)
UNARY(aclnnSinh, at::sinh)
UNARY_INPLACE(aclnnInplaceSinh, at::sinh)
UNARY(aclnnCosh, at::cosh)
UNARY_INPLACE(aclnnInplaceCosh, at::cosh)
UNARY(aclnnTanh, at::tanh)
UNARY_INPLACE(aclnnInplaceTanh, at::tanh)
UNARY(aclnnAsinh, at::asinh)
UNARY_INPLACE(aclnnInplaceAsinh, at::asinh)
UNARY(aclnnAcosh, at::acosh)
UNARY_INPLACE(aclnnInplaceAcosh, at::acosh)
UNARY(aclnnAtanh, at::atanh)
UNARY_INPLACE(aclnnInplaceAtanh, at::atanh)
UNARY(aclnnSinc, at::sinc)
UNARY_INPLACE(aclnnInplaceSinc, at::sinc)
UNARY(aclnnAngleV2, at::angle)

// Numbers that are none.
UNARY(aclnnIsFinite, at::isfinite)
UNARY(aclnnIsPosInf, at::isposinf)
UNARY(aclnnIsNegInf, at::isneginf)
KERNEL(aclnnNanToNum, (Tensor self, float nan, float positive_infinity, float negative_infinity, Output result)) {
    result = replace_non_finite(self, nan, positive_infinity, negative_infinity);
}
KERNEL(aclnnInplaceNanToNum, (Output self, float nan, float positive_infinity, float negative_infinity)) {
    self = replace_non_finite(self.tensor(), nan, positive_infinity, negative_infinity);
}

// Logic and bits.
UNARY(aclnnLogicalNot, at::logical_not)
UNARY_INPLACE(aclnnInplaceLogicalNot, at::logical_not)
UNARY(aclnnBitwiseNot, at::bitwise_not)

// Copies. The output decides about the conversion.
KERNEL(aclnnInplaceCopy, (Output self, Tensor source)) { self.tensor().copy_(source); }
KERNEL(aclnnCast, (Tensor self, ElementType /*type*/, Output result)) { result = self.to(result.type()); }

}  // namespace virtual_npu
