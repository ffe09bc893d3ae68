// Comparisons, logic of two operands, bits and shifts. The caller decides the data type of the result: bool for a new
// tensor, the type of the first operand in place.
#include "kernel.h"

namespace virtual_npu {

#define COMPARISON(NAME, COMPUTE)                                                                              \
    KERNEL(aclnn##NAME##Tensor, (Tensor self, Tensor other, Output result)) { result = COMPUTE(self, other); } \
    KERNEL(aclnn##NAME##Scalar, (Tensor self, Scalar other, Output result)) { result = COMPUTE(self, other); } \
    KERNEL(aclnnInplace##NAME##Tensor, (Output self, Tensor other)) { self = COMPUTE(self.tensor(), other); }  \
    KERNEL(aclnnInplace##NAME##Scalar, (Output self, Scalar other)) { self = COMPUTE(self.tensor(), other); }

COMPARISON(Eq, at::eq)
COMPARISON(Ne, at::ne)
COMPARISON(Lt, at::lt)
COMPARISON(Le, at::le)
COMPARISON(Gt, at::gt)
COMPARISON(Ge, at::ge)
// Less or equal, in spite of its name. The only caller is torch.ge with a number on the host as first operand. It
// exchanges the operands.
KERNEL(aclnnLessScalar, (Tensor self, Scalar other, Output result)) { result = at::le(self, other); }

KERNEL(aclnnEqual, (Tensor self, Tensor other, Output result)) { result.tensor().fill_(at::equal(self, other)); }
KERNEL(aclnnIsClose, (Tensor self, Tensor other, double relative, double absolute, bool equal_nan, Output result)) {
    result = at::isclose(self, other, relative, absolute, equal_nan);
}
KERNEL(aclnnIsInScalarTensor, (Scalar element, Tensor test_elements, bool assume_unique, bool invert, Output result)) {
    result = at::isin(element, test_elements, assume_unique, invert);
}
KERNEL(aclnnIsInTensorScalar, (Tensor elements, Scalar test_element, bool assume_unique, bool invert, Output result)) {
    result = at::isin(elements, test_element, assume_unique, invert);
}

#define TENSOR_LOGIC(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Tensor other, Output result)) { result = COMPUTE(self, other); }
#define TENSOR_LOGIC_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self, Tensor other)) { self = COMPUTE(self.tensor(), other); }
#define SCALAR_LOGIC(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Scalar other, Output result)) { result = COMPUTE(self, other); }
#define SCALAR_LOGIC_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self, Scalar other)) { self = COMPUTE(self.tensor(), other); }

TENSOR_LOGIC(aclnnLogicalAnd, at::logical_and)
TENSOR_LOGIC_INPLACE(aclnnInplaceLogicalAnd, at::logical_and)
TENSOR_LOGIC(aclnnLogicalOr, at::logical_or)
TENSOR_LOGIC_INPLACE(aclnnInplaceLogicalOr, at::logical_or)
TENSOR_LOGIC(aclnnLogicalXor, at::logical_xor)

TENSOR_LOGIC(aclnnBitwiseAndTensor, at::bitwise_and)
TENSOR_LOGIC_INPLACE(aclnnInplaceBitwiseAndTensor, at::bitwise_and)
SCALAR_LOGIC(aclnnBitwiseAndScalar, at::bitwise_and)
SCALAR_LOGIC_INPLACE(aclnnInplaceBitwiseAndScalar, at::bitwise_and)
TENSOR_LOGIC(aclnnBitwiseOrTensor, at::bitwise_or)
SCALAR_LOGIC(aclnnBitwiseOrScalar, at::bitwise_or)
TENSOR_LOGIC(aclnnBitwiseXorTensor, at::bitwise_xor)
TENSOR_LOGIC_INPLACE(aclnnInplaceBitwiseXorTensor, at::bitwise_xor)
SCALAR_LOGIC(aclnnBitwiseXorScalar, at::bitwise_xor)
SCALAR_LOGIC_INPLACE(aclnnInplaceBitwiseXorScalar, at::bitwise_xor)

TENSOR_LOGIC(aclnnLeftShift, at::bitwise_left_shift)
SCALAR_LOGIC(aclnnLeftShifts, at::bitwise_left_shift)
TENSOR_LOGIC(aclnnRightShift, at::bitwise_right_shift)

}  // namespace virtual_npu
