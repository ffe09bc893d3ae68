// Tensors made from numbers: ranges, identity matrices, constants.
#include "kernel.h"

namespace virtual_npu {

// The caller has computed the number of elements, so the size of the output is right by definition. A computation of
// our own could differ by one.
KERNEL(aclnnArange, (Scalar start, Scalar /*end*/, Scalar step, Output result)) {
    const int64_t count = result.tensor().numel();
    if (c10::isIntegralType(result.type(), false)) {
        result = at::arange(count, at::kLong).mul_(step.toLong()).add_(start.toLong());
    } else {
        result = at::arange(count, at::kDouble).mul_(step.toDouble()).add_(start.toDouble());
    }
}
KERNEL(aclnnRange, (Scalar start, Scalar end, Scalar step, Output result)) {
    result = at::range(start, end, step, at::TensorOptions().dtype(result.type()));
}
KERNEL(aclnnLinspace, (Scalar start, Scalar end, int64_t steps, Output result)) {
    result = at::linspace(start, end, steps, at::TensorOptions().dtype(result.type()));
}
KERNEL(aclnnLogSpace, (Scalar start, Scalar end, int64_t steps, double base, Output result)) {
    result = at::logspace(start, end, steps, base, at::TensorOptions().dtype(result.type()));
}
KERNEL(aclnnEye, (int64_t rows, int64_t columns, Output result)) {
    result = at::eye(rows, columns, at::TensorOptions().dtype(result.type()));
}

KERNEL(aclnnInplaceZero, (Output self)) { self.tensor().zero_(); }
KERNEL(aclnnInplaceOne, (Output self)) { self.tensor().fill_(1); }
KERNEL(aclnnInplaceFillScalar, (Output self, Scalar value)) { self.tensor().fill_(value); }
KERNEL(aclnnInplaceFillTensor, (Output self, Tensor value)) { self.tensor().fill_(value.reshape({})); }
KERNEL(aclnnInplaceFillDiagonal, (Output self, Scalar value, bool wrap)) { self.tensor().fill_diagonal_(value, wrap); }

}  // namespace virtual_npu
