// Convolutions: 1 to 3 dimensions, transposed, grouped, depthwise, and the time-batch-channel form.
#include "kernel.h"

namespace virtual_npu {

KERNEL_WITH_WORKSPACE(aclnnConvolution, (Tensor input, Tensor weight, OptionalTensor bias, IntList stride,
                                         IntList padding, IntList dilation, bool transposed, IntList output_padding,
                                         int64_t groups, Output result, CubeMathType /*cube_math_type*/)) {
    result = at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

KERNEL_WITH_WORKSPACE(aclnnConvolutionBackward,
                      (Tensor gradient, Tensor input, Tensor weight, OptionalIntList bias_sizes, IntList stride,
                       IntList padding, IntList dilation, bool transposed, IntList output_padding, int64_t groups,
                       BoolList output_mask, CubeMathType /*cube_math_type*/, Output input_gradient,
                       Output weight_gradient, Output bias_gradient)) {
    const bool wanted[] = {output_mask.at(0), output_mask.at(1), output_mask.at(2)};
    const auto [of_input, of_weight, of_bias] = at::convolution_backward(
        gradient, input, weight,
        bias_sizes.has_value() ? at::OptionalIntArrayRef(*bias_sizes) : at::OptionalIntArrayRef(), stride, padding,
        dilation, transposed, output_padding, groups, {wanted[0], wanted[1], wanted[2]});
    if (wanted[0]) input_gradient = of_input;
    if (wanted[1]) weight_gradient = of_weight;
    if (wanted[2]) bias_gradient = of_bias;
}

KERNEL_WITH_WORKSPACE(aclnnConvDepthwise2d,
                      (Tensor input, Tensor weight, IntList /*kernel_size*/, OptionalTensor bias, IntList stride,
                       IntList padding, IntList dilation, Output result, CubeMathType /*cube_math_type*/)) {
    result = at::conv2d(input, weight, bias, stride, padding, dilation, input.size(input.dim() - 3));
}

KERNEL_WITH_WORKSPACE(aclnnConvTbc, (Tensor input, Tensor weight, Tensor bias, int64_t padding, Output result,
                                     CubeMathType /*cube_math_type*/)) {
    result = at::conv_tbc(input, weight, bias, padding);
}

KERNEL_WITH_WORKSPACE(aclnnConvTbcBackward, (Tensor gradient, Tensor input, Tensor weight, Tensor bias, int64_t padding,
                                             CubeMathType /*cube_math_type*/, Output input_gradient,
                                             Output weight_gradient, Output bias_gradient)) {
    const auto [of_input, of_weight, of_bias] = at::conv_tbc_backward(gradient, input, weight, bias, padding);
    input_gradient = of_input;
    weight_gradient = of_weight;
    bias_gradient = of_bias;
}

}  // namespace virtual_npu
