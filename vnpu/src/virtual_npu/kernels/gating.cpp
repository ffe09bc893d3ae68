// Activations along a dimension: softmax in its forms, and units where one half gates the other.
#include "kernel.h"

namespace virtual_npu {
namespace {

const char* gating_approximation(int64_t approximate) { return approximate == 0 ? "none" : "tanh"; }

// Value and gate of a gated unit, and the same two parts of its gradient.
struct Halves {
    Tensor value;
    Tensor gate;
};

Halves halves_of(const Tensor& self, int64_t dimension, bool gate_is_first) {
    require(self.size(dimension) % 2 == 0, "the dimension that is halved has an odd size");
    const int64_t length = self.size(dimension) / 2;
    const Tensor first = self.narrow(dimension, 0, length);
    const Tensor second = self.narrow(dimension, length, length);
    return gate_is_first ? Halves{second, first} : Halves{first, second};
}

Tensor join_halves(const Halves& halves, int64_t dimension, bool gate_is_first) {
    return gate_is_first ? at::cat({halves.gate, halves.value}, dimension)
                         : at::cat({halves.value, halves.gate}, dimension);
}

Tensor swiglu(const Tensor& self, int64_t dimension) {
    const Halves halves = halves_of(self, dimension, true);
    return at::silu(halves.gate) * halves.value;
}

Tensor swiglu_backward(const Tensor& gradient, const Tensor& self, int64_t dimension) {
    const Halves halves = halves_of(self, dimension, true);
    const Halves gradients{gradient * at::silu(halves.gate), at::silu_backward(gradient * halves.value, halves.gate)};
    return join_halves(gradients, dimension, true);
}

Tensor geglu_backward(const Tensor& gradient, const Tensor& self, const Tensor& gelu, int64_t dimension,
                      int64_t approximate, bool gate_is_first) {
    const Halves halves = halves_of(self, dimension, gate_is_first);
    const Halves gradients{gradient * gelu,
                           at::gelu_backward(gradient * halves.value, halves.gate, gating_approximation(approximate))};
    return join_halves(gradients, dimension, gate_is_first);
}

// The value of a masked score in the fused softmax. It is not minus infinity, so that a row of masked scores is
// uniform.
constexpr double kMaskedScore = -10000.0;

Tensor score_mask(const Tensor& mask, const Tensor& self, bool triangular) {
    if (!triangular) return truth_values(mask).expand_as(self);
    const int64_t rows = self.size(-2);
    return at::ones({rows, self.size(-1)}, self.options().dtype(at::kBool)).triu(1).expand_as(self);
}

Tensor scaled_masked_softmax(const Tensor& self, const Tensor& mask, double scale, bool triangular) {
    require_floating(self);
    const Tensor scores = (self.to(at::kFloat) * scale).masked_fill(score_mask(mask, self, triangular), kMaskedScore);
    return at::softmax(scores, -1);
}

Tensor scaled_masked_softmax_backward(const Tensor& gradient, const Tensor& result, const Tensor& mask, double scale,
                                      bool triangular) {
    const Tensor wide = result.to(at::kFloat);
    const Tensor inner = at::_softmax_backward_data(gradient.to(at::kFloat), wide, -1, at::kFloat);
    return (inner * scale).masked_fill(score_mask(mask, result, triangular), 0);
}

}  // namespace

// The result may be wider than the input (half_to_float), and the gradient narrower than the result.
KERNEL(aclnnSoftmax, (Tensor self, int64_t dimension, Output result)) {
    result = at::_softmax(self.to(result.type()), dimension, false);
}
KERNEL(aclnnSoftmaxBackward, (Tensor gradient, Tensor output, int64_t dimension, Output result)) {
    result = at::_softmax_backward_data(gradient, output, dimension, output.scalar_type());
}
KERNEL(aclnnLogSoftmax, (Tensor self, int64_t dimension, Output result)) {
    result = at::_log_softmax(self.to(result.type()), dimension, false);
}
KERNEL(aclnnLogSoftmaxBackward, (Tensor gradient, Tensor output, int64_t dimension, Output result)) {
    result = at::_log_softmax_backward_data(gradient, output, dimension, output.scalar_type());
}
KERNEL(aclnnScaledMaskedSoftmax, (Tensor self, Tensor mask, double scale, bool triangular, Output result)) {
    result = scaled_masked_softmax(self, mask, scale, triangular);
}
KERNEL(aclnnScaledMaskedSoftmaxBackward,
       (Tensor gradient, Tensor output, Tensor mask, double scale, bool triangular, Output result)) {
    result = scaled_masked_softmax_backward(gradient, output, mask, scale, triangular);
}

// Gated linear units: glu gates with its second half, swiglu with its first, geglu with the one that is asked for.
KERNEL(aclnnGlu, (Tensor self, int64_t dimension, Output result)) { result = at::glu(self, dimension); }
KERNEL(aclnnGluBackward, (Tensor gradient, Tensor self, int64_t dimension, Output result)) {
    result = at::glu_backward(gradient, self, dimension);
}
KERNEL(aclnnSwiGlu, (Tensor self, int64_t dimension, Output result)) { result = swiglu(self, dimension); }
KERNEL(aclnnSwiGluGrad, (Tensor gradient, Tensor self, int64_t dimension, Output result)) {
    result = swiglu_backward(gradient, self, dimension);
}
KERNEL(aclnnGeGluV3,
       (Tensor self, int64_t dimension, int64_t approximate, bool activate_left, Output result, Output gelu)) {
    const Halves halves = halves_of(self, dimension, activate_left);
    const Tensor activated = at::gelu(halves.gate, gating_approximation(approximate));
    gelu = activated;
    result = activated * halves.value;
}
KERNEL(aclnnGeGluV3Backward, (Tensor gradient, Tensor self, Tensor gelu, int64_t dimension, int64_t approximate,
                              bool activate_left, Output result)) {
    result = geglu_backward(gradient, self, gelu, dimension, approximate, activate_left);
}
KERNEL(aclnnGeluMul, (Tensor self, Text approximate, Output result)) {
    const Halves halves = halves_of(self, -1, true);
    result = at::gelu(halves.gate, approximate) * halves.value;
}

}  // namespace virtual_npu
