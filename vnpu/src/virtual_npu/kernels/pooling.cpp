// Pooling: maximum, average, adaptive, and unpooling.
#include "kernel.h"

namespace virtual_npu {
namespace {

// One entry for each of the two image dimensions. torch_npu passes one number where both are equal. It passes no stride
// where the stride is the kernel's size.
struct Window {
    IntList kernel, stride, padding, dilation;

    Window(const IntList& kernel_size, const IntList& strides, const IntList& paddings, const IntList& dilations)
        : kernel(both(kernel_size)),
          stride(strides.empty() ? kernel : both(strides)),
          padding(both(paddings)),
          dilation(both(dilations)) {}

private:
    static IntList both(const IntList& values) {
        require(!values.empty(), "a window needs a size");
        return {values.front(), values.back()};
    }
};

// Where in the input plane the window of each output begins along one dimension (negative in the padding).
Tensor window_begins(const Window& window, int dimension, int64_t outputs) {
    return at::arange(outputs, at::kLong) * window.stride[dimension] - window.padding[dimension];
}

// The mask of aclnnMaxPool2dWithMask is ours to lay out. It has kernel_height * kernel_width rows for each plane. Each
// row has at least two bytes for each output. Byte o of row k is one where output o took the k-th element of its
// window.
Tensor mask_rows(const Tensor& mask, int64_t outputs) { return mask.narrow(-1, 0, outputs); }

void mask_from_indices(const Tensor& indices, const Window& window, int64_t input_width, Tensor mask) {
    const int64_t height = indices.size(-2), width = indices.size(-1);
    const Tensor row = indices.div(input_width, "floor") - window_begins(window, 0, height).unsqueeze(1);
    const Tensor column = indices.remainder(input_width) - window_begins(window, 1, width);
    const Tensor position =
        row.div(window.dilation[0], "floor") * window.kernel[1] + column.div(window.dilation[1], "floor");
    mask.zero_();
    mask_rows(mask, height * width).scatter_(-2, position.flatten(-2).unsqueeze(-2), 1);
}

Tensor indices_from_mask(const Tensor& mask, const Window& window, int64_t input_width, at::IntArrayRef sizes) {
    const int64_t height = sizes[sizes.size() - 2], width = sizes[sizes.size() - 1];
    const Tensor position = mask_rows(mask, height * width).argmax(-2).reshape(sizes);
    const Tensor row =
        position.div(window.kernel[1], "floor") * window.dilation[0] + window_begins(window, 0, height).unsqueeze(1);
    const Tensor column = position.remainder(window.kernel[1]) * window.dilation[1] + window_begins(window, 1, width);
    return row * input_width + column;
}

std::optional<int64_t> divisor_or_none(int64_t divisor_override) {
    return divisor_override == 0 ? std::nullopt : std::optional<int64_t>(divisor_override);
}

}  // namespace

// --- maximum

KERNEL(aclnnMaxPool2dWithMask, (Tensor self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                                bool ceil_mode, Output result, Output mask)) {
    const Window window(kernel_size, stride, padding, dilation);
    const auto [values, indices] =
        at::max_pool2d_with_indices(self, window.kernel, window.stride, window.padding, window.dilation, ceil_mode);
    result = values;
    mask_from_indices(indices, window, self.size(-1), mask.tensor());
}

KERNEL(aclnnMaxPool2dWithMaskBackward, (Tensor gradient, Tensor self, Tensor mask, IntList kernel_size, IntList stride,
                                        IntList padding, IntList dilation, bool ceil_mode, Output result)) {
    const Window window(kernel_size, stride, padding, dilation);
    const Tensor indices = indices_from_mask(mask, window, self.size(-1), gradient.sizes());
    result = at::max_pool2d_with_indices_backward(gradient, self, window.kernel, window.stride, window.padding,
                                                  window.dilation, ceil_mode, indices);
}

KERNEL(aclnnMaxPool2dWithIndices, (Tensor self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                                   bool ceil_mode, Output result, Output result_indices)) {
    const auto [values, indices] = at::max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode);
    result = values;
    result_indices = indices;
}

KERNEL(aclnnMaxPool2dWithIndicesBackward,
       (Tensor gradient, Tensor self, Tensor indices, IntList kernel_size, IntList stride, IntList padding,
        IntList dilation, bool ceil_mode, Output result)) {
    result = at::max_pool2d_with_indices_backward(gradient, self, kernel_size, stride, padding, dilation, ceil_mode,
                                                  indices.to(at::kLong));
}

KERNEL(aclnnMaxPool3dWithArgmax, (Tensor self, IntList kernel_size, IntList stride, IntList padding, IntList dilation,
                                  bool ceil_mode, Output result, Output result_indices)) {
    const auto [values, indices] = at::max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode);
    result = values;
    result_indices = indices;
}

KERNEL(aclnnMaxPool3dWithArgmaxBackward,
       (Tensor gradient, Tensor self, Tensor indices, IntList kernel_size, IntList stride, IntList padding,
        IntList dilation, bool ceil_mode, Output result)) {
    result = at::max_pool3d_with_indices_backward(gradient, self, kernel_size, stride, padding, dilation, ceil_mode,
                                                  indices.to(at::kLong));
}

KERNEL(aclnnMaxUnpool2d, (Tensor self, Tensor indices, IntList output_size, Output result)) {
    result = at::max_unpool2d(widened(self), indices, output_size);
}

KERNEL(aclnnMaxUnpool3d,
       (Tensor self, Tensor indices, IntList output_size, IntList stride, IntList padding, Output result)) {
    result = at::max_unpool3d(widened(self), indices, output_size, stride, padding);
}

// --- average

KERNEL(aclnnAvgPool2d,
       (Tensor self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode, bool count_include_pad,
        int64_t divisor_override, CubeMathType /*cube_math_type*/, Output result)) {
    result = at::avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                            divisor_or_none(divisor_override));
}

KERNEL(aclnnAvgPool2dBackward,
       (Tensor gradient, Tensor self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
        bool count_include_pad, int64_t divisor_override, CubeMathType /*cube_math_type*/, Output result)) {
    result = at::avg_pool2d_backward(gradient, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                                     divisor_or_none(divisor_override));
}

KERNEL(aclnnAvgPool3d, (Tensor self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                        bool count_include_pad, int64_t divisor_override, Output result)) {
    result = at::avg_pool3d(widened(self), kernel_size, stride, padding, ceil_mode, count_include_pad,
                            divisor_or_none(divisor_override));
}

KERNEL(aclnnAvgPool3dBackward, (Tensor gradient, Tensor self, IntList kernel_size, IntList stride, IntList padding,
                                bool ceil_mode, bool count_include_pad, int64_t divisor_override, Output result)) {
    result = at::avg_pool3d_backward(widened(gradient), widened(self), kernel_size, stride, padding, ceil_mode,
                                     count_include_pad, divisor_or_none(divisor_override));
}

// --- adaptive

KERNEL(aclnnAdaptiveAvgPool2d, (Tensor self, IntList output_size, Output result)) {
    result = at::_adaptive_avg_pool2d(self, output_size);
}

KERNEL(aclnnAdaptiveAvgPool2dBackward, (Tensor gradient, Tensor self, Output result)) {
    result = at::_adaptive_avg_pool2d_backward(gradient, self);
}

KERNEL(aclnnAdaptiveAvgPool3d, (Tensor self, IntList output_size, Output result)) {
    result = at::_adaptive_avg_pool3d(self, output_size);
}

KERNEL(aclnnAdaptiveAvgPool3dBackward, (Tensor gradient, Tensor self, Output result)) {
    result = at::_adaptive_avg_pool3d_backward(gradient, self);
}

KERNEL(aclnnAdaptiveMaxPool2d, (Tensor self, IntList output_size, Output result, Output result_indices)) {
    const auto [values, indices] = at::adaptive_max_pool2d(self, output_size);
    result = values;
    result_indices = indices;
}

KERNEL(aclnnAdaptiveMaxPool2dBackward, (Tensor gradient, Tensor self, Tensor indices, Output result)) {
    result = at::adaptive_max_pool2d_backward(gradient, self, indices.to(at::kLong));
}

KERNEL(aclnnAdaptiveMaxPool3d, (Tensor self, IntList output_size, Output result, Output result_indices)) {
    const auto [values, indices] = at::adaptive_max_pool3d(self, output_size);
    result = values;
    result_indices = indices;
}

KERNEL(aclnnAdaptiveMaxPool3dBackward, (Tensor gradient, Tensor self, Tensor indices, Output result)) {
    result = at::adaptive_max_pool3d_backward(gradient, self, indices.to(at::kLong));
}

}  // namespace virtual_npu
