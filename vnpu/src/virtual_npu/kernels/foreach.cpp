// Functions on lists of tensors (torch._foreach_*). One call does to every tensor of a list what the plain operator
// does to one. If the caller passes the first list as the last one too, the call works in place.
//
// A scalar is a tensor of one element in the first version of a function and an aclScalar in its "V2". A "ScalarList"
// is a list of aclScalars, or one tensor with an element for each tensor of the list. The kernels take either.
#include "kernel.h"

namespace virtual_npu {
namespace {

struct ScalarsOrTensor {
    ScalarList values;
};

// The rounding that aclnnForeachRoundOffNumber applies to a number, by the code that the caller passes.
Tensor round_off(const Tensor& self, const Scalar& mode) {
    switch (mode.toLong()) {
        case 1:
            return at::round(self);
        case 2:
            return at::floor(self);
        case 3:
            return at::ceil(self);
        case 5:
            return at::trunc(self);
        case 7:
            return at::frac(self);
        default:
            throw std::invalid_argument("rounding code " + std::to_string(mode.toLong()) + " is not known here");
    }
}

}  // namespace

template <>
struct Argument<ScalarsOrTensor> {
    using CType = const void*;
    static ScalarsOrTensor convert(CType value) {
        if (value == nullptr || *static_cast<const ObjectKind*>(value) != ObjectKind::kTensor) {
            return {Argument<ScalarList>::convert(static_cast<const aclScalarList*>(value))};
        }
        const Tensor elements = tensor_of(static_cast<const aclTensor*>(value)).reshape(-1);
        ScalarsOrTensor scalars;
        for (int64_t index = 0; index < elements.numel(); ++index) scalars.values.push_back(elements[index].item());
        return scalars;
    }
};

#define FOREACH_UNARY(FUNCTION, COMPUTE)                                                           \
    KERNEL(FUNCTION, (TensorList self, OutputList result)) {                                       \
        for (size_t index = 0; index < self.size(); ++index) result[index] = COMPUTE(self[index]); \
    }
#define FOREACH_LIST(FUNCTION, COMPUTE)                                                                             \
    KERNEL(FUNCTION, (TensorList self, TensorList other, OutputList result)) {                                      \
        for (size_t index = 0; index < self.size(); ++index) result[index] = COMPUTE(self[index], other.at(index)); \
    }
#define FOREACH_LIST_WITH_FACTOR(FUNCTION, COMPUTE)                                                  \
    KERNEL(FUNCTION, (TensorList self, TensorList other, ScalarOrTensor alpha, OutputList result)) { \
        for (size_t index = 0; index < self.size(); ++index) {                                       \
            result[index] = COMPUTE(self[index], other.at(index), alpha.value);                      \
        }                                                                                            \
    }
#define FOREACH_SCALAR(FUNCTION, COMPUTE)                                                                       \
    KERNEL(FUNCTION, (TensorList self, ScalarOrTensor other, OutputList result)) {                              \
        for (size_t index = 0; index < self.size(); ++index) result[index] = COMPUTE(self[index], other.value); \
    }
#define FOREACH_SCALARS(FUNCTION, COMPUTE)                                          \
    KERNEL(FUNCTION, (TensorList self, ScalarsOrTensor other, OutputList result)) { \
        for (size_t index = 0; index < self.size(); ++index) {                      \
            result[index] = COMPUTE(self[index], other.values.at(index));           \
        }                                                                           \
    }
#define FOREACH_TERNARY_SCALAR(FUNCTION, COMPUTE)                                                             \
    KERNEL(FUNCTION,                                                                                          \
           (TensorList self, TensorList first, TensorList second, ScalarOrTensor value, OutputList result)) { \
        for (size_t index = 0; index < self.size(); ++index) {                                                \
            result[index] = COMPUTE(self[index], first.at(index), second.at(index), value.value);             \
        }                                                                                                     \
    }
#define FOREACH_TERNARY_SCALARS(FUNCTION, COMPUTE)                                                             \
    KERNEL(FUNCTION,                                                                                           \
           (TensorList self, TensorList first, TensorList second, ScalarsOrTensor value, OutputList result)) { \
        for (size_t index = 0; index < self.size(); ++index) {                                                 \
            result[index] = COMPUTE(self[index], first.at(index), second.at(index), value.values.at(index));   \
        }                                                                                                      \
    }

FOREACH_UNARY(aclnnForeachAbs, at::abs)
FOREACH_UNARY(aclnnForeachAcos, at::acos)
FOREACH_UNARY(aclnnForeachAsin, at::asin)
FOREACH_UNARY(aclnnForeachAtan, at::atan)
FOREACH_UNARY(aclnnForeachCos, at::cos)
FOREACH_UNARY(aclnnForeachCosh, at::cosh)
FOREACH_UNARY(aclnnForeachErf, at::erf)
FOREACH_UNARY(aclnnForeachErfc, at::erfc)
FOREACH_UNARY(aclnnForeachExp, at::exp)
FOREACH_UNARY(aclnnForeachExpm1, at::expm1)
FOREACH_UNARY(aclnnForeachLog, at::log)
FOREACH_UNARY(aclnnForeachLog10, at::log10)
FOREACH_UNARY(aclnnForeachLog1p, at::log1p)
FOREACH_UNARY(aclnnForeachLog2, at::log2)
FOREACH_UNARY(aclnnForeachNeg, at::neg)
FOREACH_UNARY(aclnnForeachReciprocal, at::reciprocal)
FOREACH_UNARY(aclnnForeachSigmoid, at::sigmoid)
FOREACH_UNARY(aclnnForeachSign, at::sign)
FOREACH_UNARY(aclnnForeachSin, at::sin)
FOREACH_UNARY(aclnnForeachSinh, at::sinh)
FOREACH_UNARY(aclnnForeachSqrt, at::sqrt)
FOREACH_UNARY(aclnnForeachTan, at::tan)
FOREACH_UNARY(aclnnForeachTanh, at::tanh)
FOREACH_SCALAR(aclnnForeachRoundOffNumber, round_off)
FOREACH_SCALAR(aclnnForeachRoundOffNumberV2, round_off)

FOREACH_LIST_WITH_FACTOR(aclnnForeachAddList, at::add)
FOREACH_LIST_WITH_FACTOR(aclnnForeachAddListV2, at::add)
FOREACH_SCALAR(aclnnForeachAddScalar, at::add)
FOREACH_SCALAR(aclnnForeachAddScalarV2, at::add)
FOREACH_SCALARS(aclnnForeachAddScalarList, at::add)
FOREACH_LIST_WITH_FACTOR(aclnnForeachSubList, at::sub)
FOREACH_LIST_WITH_FACTOR(aclnnForeachSubListV2, at::sub)
FOREACH_SCALAR(aclnnForeachSubScalar, at::sub)
FOREACH_SCALAR(aclnnForeachSubScalarV2, at::sub)
FOREACH_SCALARS(aclnnForeachSubScalarList, at::sub)
FOREACH_LIST(aclnnForeachMulList, at::mul)
FOREACH_SCALAR(aclnnForeachMulScalar, at::mul)
FOREACH_SCALAR(aclnnForeachMulScalarV2, at::mul)
FOREACH_SCALARS(aclnnForeachMulScalarList, at::mul)
FOREACH_LIST(aclnnForeachDivList, at::div)
FOREACH_SCALAR(aclnnForeachDivScalar, at::div)
FOREACH_SCALAR(aclnnForeachDivScalarV2, at::div)
FOREACH_SCALARS(aclnnForeachDivScalarList, at::div)
FOREACH_LIST(aclnnForeachMaximumList, at::maximum)
FOREACH_SCALAR(aclnnForeachMaximumScalar, at::clamp_min)
FOREACH_SCALAR(aclnnForeachMaximumScalarV2, at::clamp_min)
FOREACH_SCALARS(aclnnForeachMaximumScalarList, at::clamp_min)
FOREACH_LIST(aclnnForeachMinimumList, at::minimum)
FOREACH_SCALAR(aclnnForeachMinimumScalar, at::clamp_max)
FOREACH_SCALAR(aclnnForeachMinimumScalarV2, at::clamp_max)
FOREACH_SCALARS(aclnnForeachMinimumScalarList, at::clamp_max)
FOREACH_LIST(aclnnForeachPowList, at::pow)
FOREACH_SCALAR(aclnnForeachPowScalar, at::pow)
FOREACH_SCALAR(aclnnForeachPowScalarV2, at::pow)
FOREACH_SCALARS(aclnnForeachPowScalarList, at::pow)
KERNEL(aclnnForeachPowScalarAndTensor, (ScalarOrTensor self, TensorList exponent, OutputList result)) {
    for (size_t index = 0; index < exponent.size(); ++index) result[index] = at::pow(self.value, exponent[index]);
}

FOREACH_TERNARY_SCALAR(aclnnForeachAddcdivScalar, at::addcdiv)
FOREACH_TERNARY_SCALAR(aclnnForeachAddcdivScalarV2, at::addcdiv)
FOREACH_TERNARY_SCALARS(aclnnForeachAddcdivScalarList, at::addcdiv)
FOREACH_TERNARY_SCALAR(aclnnForeachAddcmulScalar, at::addcmul)
FOREACH_TERNARY_SCALAR(aclnnForeachAddcmulScalarV2, at::addcmul)
FOREACH_TERNARY_SCALARS(aclnnForeachAddcmulScalarList, at::addcmul)
FOREACH_LIST_WITH_FACTOR(aclnnForeachLerpScalar, at::lerp)
KERNEL(aclnnForeachLerpList, (TensorList self, TensorList end, TensorList weight, OutputList result)) {
    for (size_t index = 0; index < self.size(); ++index) {
        result[index] = at::lerp(self[index], end.at(index), weight.at(index));
    }
}

FOREACH_SCALAR(aclnnForeachNorm, at::linalg_vector_norm)
KERNEL(aclnnForeachCopy, (TensorList source, OutputList result)) { result = source; }
KERNEL(aclnnForeachZeroInplace, (OutputList self)) {
    for (size_t index = 0; index < self.size(); ++index) self[index].tensor().zero_();
}

}  // namespace virtual_npu
