// Distances of the older operator interface (aclop), where an operator is known by its name: torch_npu computes the
// gradient of cdist with it.
#include <limits>

#include "kernel.h"

namespace virtual_npu {

// All four inputs are spread over the batches, the rows of the first operand, those of the second, and the features.
// The result is the gradient of the first operand. A negative exponent stands for infinity.
KERNEL(CdistGrad, (Tensor gradient, Tensor x1, Tensor x2, Tensor distance, Output result, Attributes attributes)) {
    if (x1.numel() == 0) {
        result = at::zeros(result.sizes(), x1.options());
        return;
    }
    const double exponent = attributes.number("p", 2);
    const Tensor spread = at::_cdist_backward(
        widened(gradient).select(-1, 0), widened(x1).select(-2, 0), widened(x2).select(-3, 0),
        exponent < 0 ? std::numeric_limits<double>::infinity() : exponent, widened(distance).select(-1, 0));
    result = spread.sum_to_size(result.sizes());  // batches over which the first operand was spread
}

}  // namespace virtual_npu
