// Norms of the older operator interface (aclop), where an operator is known by its name: torch_npu computes the
// infinity norms with them, in two steps.
#include <cmath>
#include <limits>

#include "kernel.h"

namespace virtual_npu {
namespace {

// torch_npu spells the infinities as the largest and the smallest 32-bit integer.
double power_of_norm(const Attributes& attributes) {
    const double power = attributes.number("p", 2);
    if (power >= std::numeric_limits<int32_t>::max()) return INFINITY;
    return power <= std::numeric_limits<int32_t>::min() ? -INFINITY : power;
}

}  // namespace

KERNEL(Cast, (Tensor self, Output result, Attributes /*attributes*/)) { result = self; }

// The reduction without its last root: for the infinity norms the largest or smallest absolute value.
KERNEL(LpNormReduceV2, (Tensor self, Output result, Attributes attributes)) {
    const double power = power_of_norm(attributes);
    const IntList dimensions = attributes.list("axes");
    const bool keep = attributes.flag("keepdim");
    const Tensor magnitude = self.abs();
    if (std::isinf(power)) {
        result = power > 0 ? at::amax(magnitude, dimensions, keep) : at::amin(magnitude, dimensions, keep);
    } else if (power == 0) {
        result = self.ne(0).sum(dimensions, keep);
    } else {
        result = magnitude.pow(power).sum(dimensions, keep);
    }
}

KERNEL(LpNormUpdateV2, (Tensor reduced, Output result, Attributes attributes)) {
    const double power = power_of_norm(attributes);
    result = std::isinf(power) || power == 0 ? reduced : reduced.pow(1 / power);
}

}  // namespace virtual_npu
