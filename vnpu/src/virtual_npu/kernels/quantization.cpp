// Numbers as small whole numbers, with a scale and a zero point for all or for each position of a dimension.
#include "kernel.h"

namespace virtual_npu {
namespace {

// One number for all, or one for each position of `dim`, in the shape that spreads over `self`.
Tensor along(const Tensor& numbers, const Tensor& self, int64_t dim) {
    if (numbers.numel() == 1) return numbers.reshape({});
    const int64_t place = dim < 0 ? dim + self.dim() : dim;
    require(place >= 0 && place < self.dim() && numbers.numel() == self.size(place),
            "there must be one scale and one zero point, or as many as the dimension has positions");
    IntList shape(self.dim(), 1);
    shape[place] = numbers.numel();
    return numbers.reshape(shape);
}

double lowest(ElementType type) { return type == at::kChar ? -128.0 : type == at::kByte ? 0.0 : -2147483648.0; }

double highest(ElementType type) { return type == at::kChar ? 127.0 : type == at::kByte ? 255.0 : 2147483647.0; }

}  // namespace

KERNEL(aclnnQuantize,
       (Tensor self, Tensor scales, OptionalTensor zero_points, ElementType /*type*/, int64_t dim, Output result)) {
    require_floating(self);
    const ElementType type = result.type();
    require(type == at::kChar || type == at::kByte || type == at::kInt, "quantized numbers are int8, uint8 or int32");
    // In double, because the largest int32 is no float.
    Tensor steps = at::round(self.to(at::kFloat) / along(scales.to(at::kFloat), self, dim)).to(at::kDouble);
    if (zero_points.has_value()) steps = steps + along(zero_points->to(at::kDouble), self, dim);
    result.tensor().copy_(at::clamp(steps, lowest(type), highest(type)));
}

}  // namespace virtual_npu
