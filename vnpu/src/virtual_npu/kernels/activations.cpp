// Activation functions and their gradients, element by element. The gated ones and softmax are in gating.cpp.
#include "kernel.h"

namespace virtual_npu {
namespace {

// torch_npu's fast gelu: x * sigmoid(1.702 x).
constexpr double kFastGeluSlope = 1.702;

Tensor fast_gelu(const Tensor& self) { return self * at::sigmoid(self * kFastGeluSlope); }

Tensor fast_gelu_backward(const Tensor& gradient, const Tensor& self) {
    const Tensor gate = at::sigmoid(self * kFastGeluSlope);
    return gradient * (gate + self * gate * (1 - gate) * kFastGeluSlope);
}

// The saved buffer of logsigmoid has another form on an NPU than on a CPU; the input is enough.
Tensor log_sigmoid_gradient(const Tensor& gradient, const Tensor& self) {
    return gradient.to(at::kFloat) * at::sigmoid(-self.to(at::kFloat));
}

// The weight of prelu arrives with one element, with one for each channel (dimension 1), or ready to broadcast.
Tensor broadcast_channels(const Tensor& weight, const Tensor& self) {
    if (weight.dim() == self.dim()) return weight;
    std::vector<int64_t> shape(self.dim(), 1);
    if (weight.numel() > 1) shape.at(1) = weight.numel();
    return weight.reshape(shape);
}

void prelu_backward(const Tensor& gradient, const Tensor& self, const Tensor& weight, Output& self_gradient,
                    Output& weight_gradient) {
    const Tensor broadcast = broadcast_channels(weight, self);
    const auto gradients = at::_prelu_kernel_backward(gradient, self, broadcast);
    self_gradient = std::get<0>(gradients);
    const Tensor& per_element = std::get<1>(gradients);
    if (!weight_gradient) return;
    const bool reduced = weight_gradient.tensor().numel() != per_element.numel();
    weight_gradient.assign_reshaped(reduced ? per_element.sum_to_size(broadcast.sizes()) : per_element);
}

// Leaves in `noise` the slope of each element (1 where it is not negative), which the gradient needs.
Tensor random_relu(const Tensor& self, Output noise, double lower, double upper, bool training, Seed seed,
                   Seed offset) {
    require_floating(self);
    if (!training) return at::leaky_relu(self, (lower + upper) / 2);
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u +
                                                    static_cast<uint64_t>(offset));
    const Tensor drawn = at::empty(self.sizes(), self.options().dtype(at::kFloat)).uniform_(lower, upper, generator);
    const Tensor slope = at::where(self < 0, drawn, at::ones({}, drawn.options())).to(self.scalar_type());
    noise = slope;
    return self * slope;
}

const char* gelu_approximation(int64_t approximate) { return approximate == 0 ? "none" : "tanh"; }

}  // namespace

#define ACTIVATION(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor self, Output result)) { result = COMPUTE(self); }
#define ACTIVATION_INPLACE(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Output self)) { self = COMPUTE(self.tensor()); }
#define ACTIVATION_BACKWARD(FUNCTION, COMPUTE) \
    KERNEL(FUNCTION, (Tensor gradient, Tensor self, Output result)) { result = COMPUTE(gradient, self); }

// Sigmoids. The gradients of sigmoid and tanh get the function's result.
ACTIVATION(aclnnSigmoid, at::sigmoid)
ACTIVATION_INPLACE(aclnnInplaceSigmoid, at::sigmoid)
ACTIVATION_BACKWARD(aclnnSigmoidBackward, at::sigmoid_backward)
ACTIVATION_BACKWARD(aclnnTanhBackward, at::tanh_backward)
ACTIVATION(aclnnHardsigmoid, at::hardsigmoid)
ACTIVATION_INPLACE(aclnnInplaceHardsigmoid, at::hardsigmoid)
ACTIVATION_BACKWARD(aclnnHardsigmoidBackward, at::hardsigmoid_backward)
ACTIVATION(aclnnLogSigmoid, at::log_sigmoid)
KERNEL(aclnnLogSigmoidForward, (Tensor self, Output result, Output buffer)) {
    result = at::log_sigmoid(self);
    if (buffer && buffer.tensor().numel() == self.numel()) buffer = at::exp(-at::abs(self));
}
KERNEL(aclnnLogSigmoidBackward, (Tensor gradient, Tensor self, OptionalTensor /*buffer*/, Output result)) {
    result = log_sigmoid_gradient(gradient, self);
}

// Linear units with a threshold.
ACTIVATION(aclnnRelu, at::relu)
ACTIVATION_INPLACE(aclnnInplaceRelu, at::relu)
KERNEL(aclnnThreshold, (Tensor self, Scalar threshold, Scalar value, Output result)) {
    result = at::threshold(self, threshold, value);
}
KERNEL(aclnnInplaceThreshold, (Output self, Scalar threshold, Scalar value)) {
    self = at::threshold(self.tensor(), threshold, value);
}
KERNEL(aclnnThresholdBackward, (Tensor gradient, Tensor self, Scalar threshold, Output result)) {
    result = at::threshold_backward(gradient, self, threshold);
}
KERNEL(aclnnHardtanh, (Tensor self, Scalar least, Scalar greatest, Output result)) {
    result = at::hardtanh(self, least, greatest);
}
KERNEL(aclnnInplaceHardtanh, (Output self, Scalar least, Scalar greatest)) {
    self = at::hardtanh(self.tensor(), least, greatest);
}
KERNEL(aclnnHardtanhBackward, (Tensor gradient, Tensor self, Scalar least, Scalar greatest, Output result)) {
    result = at::hardtanh_backward(gradient, self, least, greatest);
}
KERNEL(aclnnHardshrink, (Tensor self, Scalar lambda, Output result)) { result = at::hardshrink(self, lambda); }
KERNEL(aclnnHardshrinkBackward, (Tensor gradient, Tensor self, Scalar lambda, Output result)) {
    result = at::hardshrink_backward(gradient, self, lambda);
}
KERNEL(aclnnSoftshrink, (Tensor self, Scalar lambda, Output result)) { result = at::softshrink(self, lambda); }
KERNEL(aclnnSoftshrinkBackward, (Tensor gradient, Tensor self, Scalar lambda, Output result)) {
    result = at::softshrink_backward(gradient, self, lambda);
}

// Linear units with a slope below zero.
KERNEL(aclnnLeakyRelu, (Tensor self, Scalar slope, Output result)) { result = at::leaky_relu(self, slope); }
KERNEL(aclnnInplaceLeakyRelu, (Output self, Scalar slope)) { self = at::leaky_relu(self.tensor(), slope); }
KERNEL(aclnnLeakyReluBackward, (Tensor gradient, Tensor self_or_result, Scalar slope, bool is_result, Output result)) {
    result = at::leaky_relu_backward(gradient, self_or_result, slope, is_result);
}
KERNEL(aclnnPrelu, (Tensor self, Tensor weight, Output result)) {
    result = at::_prelu_kernel(self, broadcast_channels(weight, self));
}
KERNEL(aclnnPreluBackward,
       (Tensor gradient, Tensor self, Tensor weight, Output self_gradient, Output weight_gradient)) {
    prelu_backward(gradient, self, weight, self_gradient, weight_gradient);
}
KERNEL(aclnnRReluWithNoise,
       (Tensor self, Output noise, Scalar lower, Scalar upper, bool training, Seed seed, Seed offset, Output result)) {
    result = random_relu(self, noise, lower.toDouble(), upper.toDouble(), training, seed, offset);
}
KERNEL(aclnnInplaceRReluWithNoise,
       (Output self, Output noise, Scalar lower, Scalar upper, bool training, Seed seed, Seed offset)) {
    self = random_relu(self.tensor(), noise, lower.toDouble(), upper.toDouble(), training, seed, offset);
}

// Exponential units.
KERNEL(aclnnElu, (Tensor self, Scalar alpha, Scalar scale, Scalar input_scale, Output result)) {
    result = at::elu(self, alpha, scale, input_scale);
}
KERNEL(aclnnInplaceElu, (Output self, Scalar alpha, Scalar scale, Scalar input_scale)) {
    self = at::elu(self.tensor(), alpha, scale, input_scale);
}
KERNEL(aclnnEluBackward, (Tensor gradient, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
                          Tensor self_or_result, Output result)) {
    result = at::elu_backward(gradient, alpha, scale, input_scale, is_result, self_or_result);
}
KERNEL(aclnnCelu, (Tensor self, Scalar alpha, Output result)) { result = at::celu(self, alpha); }
KERNEL(aclnnInplaceCelu, (Output self, Scalar alpha)) { self = at::celu(self.tensor(), alpha); }
KERNEL(aclnnSoftplus, (Tensor self, Scalar beta, Scalar threshold, Output result)) {
    result = at::softplus(self, beta, threshold);
}
KERNEL(aclnnSoftplusBackward, (Tensor gradient, Tensor self, Scalar beta, Scalar threshold, Output result)) {
    result = at::softplus_backward(gradient, self, beta, threshold);
}

// Self-gated units.
ACTIVATION(aclnnGelu, at::gelu)
ACTIVATION_BACKWARD(aclnnGeluBackward, at::gelu_backward)
KERNEL(aclnnGeluV2, (Tensor self, int64_t approximate, Output result)) {
    result = at::gelu(self, gelu_approximation(approximate));
}
KERNEL(aclnnGeluBackwardV2, (Tensor gradient, Tensor self, Text approximate, Output result)) {
    result = at::gelu_backward(gradient, self, approximate);
}
ACTIVATION(aclnnFastGelu, fast_gelu)
ACTIVATION_BACKWARD(aclnnFastGeluBackward, fast_gelu_backward)
ACTIVATION(aclnnSilu, at::silu)
ACTIVATION_BACKWARD(aclnnSiluBackward, at::silu_backward)
ACTIVATION(aclnnHardswish, at::hardswish)
ACTIVATION_INPLACE(aclnnInplaceHardswish, at::hardswish)
ACTIVATION_BACKWARD(aclnnHardswishBackward, at::hardswish_backward)
ACTIVATION_BACKWARD(aclnnHardswishBackwardV2, at::hardswish_backward)
ACTIVATION(aclnnMish, at::mish)
ACTIVATION_INPLACE(aclnnInplaceMish, at::mish)
ACTIVATION_BACKWARD(aclnnMishBackward, at::mish_backward)

}  // namespace virtual_npu
