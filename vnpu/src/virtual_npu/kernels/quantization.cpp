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

void assign_clamped(Output& result, const Tensor& steps) {
    const ElementType type = result.type();
    require(type == at::kChar || type == at::kByte || type == at::kInt, "quantized numbers are int8, uint8 or int32");
    // In double, because the largest int32 is no float.
    result.tensor().copy_(at::clamp(steps.to(at::kDouble), lowest(type), highest(type)));
}

Tensor rounded(const Tensor& numbers, Text mode) {
    if (mode == "floor") return at::floor(numbers);
    if (mode == "ceil") return at::ceil(numbers);
    if (mode == "trunc") return at::trunc(numbers);
    require(mode == "round", "numbers are rounded by round, floor, ceil or trunc");
    return at::round(numbers);
}

void quantize_by_factor(const Tensor& self, const Tensor& factors, const OptionalTensor& offsets, bool is_root,
                        Text mode, int64_t dim, Output& result) {
    require_floating(self);
    const Tensor factor = along(factors.to(at::kFloat), self, dim);
    Tensor steps = self.to(at::kFloat) * factor;
    if (is_root) steps = steps * factor;
    if (offsets.has_value()) steps = steps + along(offsets->to(at::kFloat), self, dim);
    assign_clamped(result, rounded(steps, mode));
}

}  // namespace

KERNEL(aclnnQuantize,
       (Tensor self, Tensor scales, OptionalTensor zero_points, ElementType /*type*/, int64_t dim, Output result)) {
    require_floating(self);
    Tensor steps = at::round(self.to(at::kFloat) / along(scales.to(at::kFloat), self, dim)).to(at::kDouble);
    if (zero_points.has_value()) steps = steps + along(zero_points->to(at::kDouble), self, dim);
    assign_clamped(result, steps);
}

// Here numbers are multiplied, and offsets added before they are rounded.
KERNEL(aclnnAscendQuant, (Tensor self, Tensor factors, OptionalTensor offsets, bool is_root, Text mode,
                          ElementType /*type*/, Output result)) {
    quantize_by_factor(self, factors, offsets, is_root, mode, -1, result);
}

KERNEL(aclnnAscendQuantV3, (Tensor self, Tensor factors, OptionalTensor offsets, bool is_root, Text mode,
                            ElementType /*type*/, int32_t dim, Output result)) {
    quantize_by_factor(self, factors, offsets, is_root, mode, dim, result);
}

}  // namespace virtual_npu
