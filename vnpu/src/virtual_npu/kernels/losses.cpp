// Losses and their gradients. `reduction` is torch's number: 0 none, 1 mean, 2 sum.
#include "kernel.h"

namespace virtual_npu {
namespace {

Tensor over_count(const Tensor& gradient, const Tensor& self, int64_t reduction) {
    return reduction == at::Reduction::Mean ? gradient / self.numel() : gradient;
}

Tensor cross_entropy_with_logits_gradient(const Tensor& gradient, const Tensor& self, const Tensor& target,
                                          const OptionalTensor& weight, const OptionalTensor& positive_weight,
                                          int64_t reduction) {
    const Tensor positive = positive_weight ? target * *positive_weight : target;
    const Tensor each = ((positive + 1 - target) * at::sigmoid(self) - positive) * gradient;
    return over_count(weight ? each * *weight : each, self, reduction);
}

Tensor kl_div_gradient(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                       bool log_target) {
    return over_count(-(log_target ? at::exp(target) : target) * gradient, self, reduction);
}

Tensor kl_div_target_gradient(const Tensor& gradient, const Tensor& self, const Tensor& target, int64_t reduction,
                              bool log_target) {
    const Tensor each =
        log_target ? (target + 1 - self) * at::exp(target) : (at::log(target) + 1 - self).masked_fill(target == 0, 0);
    return over_count(each * gradient, self, reduction);
}

// Numbers of classes; the caller has int32 where torch has int64.
Tensor classes_of(const Tensor& target) {
    return target.scalar_type() == at::kByte ? target.to(at::kLong) : positions(target);
}

// For losses that the CPU does not have in half precision.
Tensor at_least_float(const Tensor& self) {
    return c10::isReducedFloatingType(self.scalar_type()) ? self.to(at::kFloat) : self;
}

int64_t reduction_number(Text reduction) {
    if (reduction == "none") return at::Reduction::None;
    return reduction == "sum" ? at::Reduction::Sum : at::Reduction::Mean;
}

Tensor class_weights(const OptionalTensor& weight, const Tensor& log_probabilities) {
    return weight ? weight->to(at::kFloat) : at::ones({log_probabilities.size(1)}, at::kFloat);
}

// Logits and targets of the fused cross entropy are two-dimensional and one-dimensional.
Tensor fused_cross_entropy_gradient(const Tensor& gradient, const Tensor& log_probabilities, const Tensor& target,
                                    const OptionalTensor& weight, Text reduction, int64_t ignored, double smoothing) {
    const Tensor log_wide = log_probabilities.to(at::kFloat);
    const Tensor weights = class_weights(weight, log_wide);
    const Tensor counted = target != ignored;
    const Tensor classes = classes_of(target).masked_fill(target == ignored, 0);
    const Tensor target_weights = weights.index_select(0, classes) * counted;
    // The gradient of the loss of each row by each log probability.
    Tensor by_log = -(smoothing / log_wide.size(1)) * weights.unsqueeze(0) * counted.unsqueeze(1);
    by_log = by_log.scatter_add(1, classes.unsqueeze(1), -(1 - smoothing) * target_weights.unsqueeze(1));
    Tensor rows = gradient.to(at::kFloat);
    if (reduction_number(reduction) == at::Reduction::Mean) rows = rows / target_weights.sum();
    by_log = by_log * (rows.dim() == 0 ? rows : rows.reshape({-1, 1}));
    return by_log - at::exp(log_wide) * by_log.sum(1, /*keepdim=*/true);
}

// The gradient needs the saved alphas in the CPU's shape; the caller's tensor may be padded, so they are computed anew.
Tensor ctc_loss_gradient(const Tensor& gradient, const Tensor& log_probabilities, const Tensor& targets,
                         const IntList& input_lengths, const IntList& target_lengths, int64_t blank,
                         bool zero_infinity) {
    const Tensor wide = at_least_float(log_probabilities);
    const auto forward = at::_ctc_loss(wide, targets, input_lengths, target_lengths, blank, zero_infinity);
    return at::_ctc_loss_backward(gradient.to(wide.scalar_type()), wide, targets, input_lengths, target_lengths,
                                  std::get<0>(forward), std::get<1>(forward), blank, zero_infinity);
}

}  // namespace

// Losses with the signature (self, target, reduction), and gradients with a gradient before.
#define LOSS(FUNCTION, COMPUTE)                                                        \
    KERNEL(FUNCTION, (Tensor self, Tensor target, int64_t reduction, Output result)) { \
        result = COMPUTE(self, target, reduction);                                     \
    }
#define LOSS_BACKWARD(FUNCTION, COMPUTE)                                                                \
    KERNEL(FUNCTION, (Tensor gradient, Tensor self, Tensor target, int64_t reduction, Output result)) { \
        result = COMPUTE(gradient, self, target, reduction);                                            \
    }

// Regression.
LOSS(aclnnMseLoss, at::mse_loss)
LOSS_BACKWARD(aclnnMseLossBackward, at::mse_loss_backward)
LOSS(aclnnL1Loss, at::l1_loss)
KERNEL(aclnnL1LossBackward, (Tensor gradient, Tensor self, Tensor target, int64_t reduction, Output result)) {
    result = over_count(at::sign(self - target) * gradient, self, reduction);
}
KERNEL(aclnnSmoothL1Loss, (Tensor self, Tensor target, int64_t reduction, float beta, Output result)) {
    result = at::smooth_l1_loss(self, target, reduction, beta);
}
KERNEL(aclnnSmoothL1LossBackward,
       (Tensor gradient, Tensor self, Tensor target, int64_t reduction, float beta, Output result)) {
    result = at::smooth_l1_loss_backward(gradient, self, target, reduction, beta);
}

// Classification with an index of the class. The caller always gives a weight for each class.
KERNEL(aclnnNLLLoss, (Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, int64_t ignored,
                      Output result, Output total_weight)) {
    const auto loss = at::nll_loss_forward(self, classes_of(target), weight, reduction, ignored);
    result = std::get<0>(loss);
    total_weight = std::get<1>(loss);
}
KERNEL(aclnnNLLLossBackward, (Tensor gradient, Tensor self, Tensor target, OptionalTensor weight, int64_t reduction,
                              int64_t ignored, Tensor total_weight, Output result)) {
    result = at::nll_loss_backward(gradient, self, classes_of(target), weight, reduction, ignored, total_weight);
}
KERNEL(aclnnNLLLoss2d, (Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, int64_t ignored,
                        Output result, Output total_weight)) {
    const auto loss = at::nll_loss2d_forward(self, classes_of(target), weight, reduction, ignored);
    result = std::get<0>(loss);
    total_weight = std::get<1>(loss);
}
KERNEL(aclnnNLLLoss2dBackward, (Tensor gradient, Tensor self, Tensor target, OptionalTensor weight, int64_t reduction,
                                int64_t ignored, Tensor total_weight, Output result)) {
    result = at::nll_loss2d_backward(gradient, self, classes_of(target), weight, reduction, ignored, total_weight);
}
// The last two outputs belong to the z loss, which torch_npu does not offer.
KERNEL(aclnnCrossEntropyLoss, (Tensor self, Tensor target, OptionalTensor weight, Text reduction, int64_t ignored,
                               double smoothing, double z_loss_scale, bool return_z_loss, Output loss,
                               Output log_probability, Output /*z_loss*/, Output /*log_sum_exp*/)) {
    if (z_loss_scale != 0 || return_z_loss) throw std::invalid_argument("the z loss is not emulated");
    require_floating(self);
    if (weight) require_floating(*weight);
    const Tensor wide = self.to(at::kFloat);
    const OptionalTensor wide_weight = weight ? OptionalTensor(weight->to(at::kFloat)) : weight;
    loss.assign_reshaped(
        at::cross_entropy_loss(wide, classes_of(target), wide_weight, reduction_number(reduction), ignored, smoothing));
    log_probability = at::log_softmax(wide, 1);
}
KERNEL(aclnnCrossEntropyLossGrad, (Tensor gradient, Tensor log_probability, Tensor target, OptionalTensor weight,
                                   OptionalTensor /*z_gradient*/, OptionalTensor /*log_sum_exp*/, Text reduction,
                                   int64_t ignored, double smoothing, double /*z_loss_scale*/, Output result)) {
    result = fused_cross_entropy_gradient(gradient, log_probability, target, weight, reduction, ignored, smoothing);
}
KERNEL(aclnnCtcLoss, (Tensor log_probability, Tensor targets, IntList input_lengths, IntList target_lengths,
                      int64_t blank, bool zero_infinity, Output loss, Output log_alpha)) {
    const auto forward =
        at::_ctc_loss(at_least_float(log_probability), targets, input_lengths, target_lengths, blank, zero_infinity);
    loss = std::get<0>(forward);
    const Tensor& alphas = std::get<1>(forward);
    Tensor saved = log_alpha.tensor();
    saved.zero_();
    saved.narrow(2, 0, alphas.size(2)).copy_(alphas);
}
KERNEL(aclnnCtcLossBackward,
       (Tensor gradient, Tensor log_probability, Tensor targets, IntList input_lengths, IntList target_lengths,
        Tensor /*loss*/, Tensor /*log_alpha*/, int64_t blank, bool zero_infinity, Output result)) {
    result = ctc_loss_gradient(gradient, log_probability, targets, input_lengths, target_lengths, blank, zero_infinity);
}

// Classification with a probability or a sign for each class.
KERNEL(aclnnBinaryCrossEntropy, (Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, Output result)) {
    result = at::binary_cross_entropy(self, target, weight, reduction);
}
KERNEL(aclnnBinaryCrossEntropyBackward,
       (Tensor gradient, Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, Output result)) {
    result = at::binary_cross_entropy_backward(gradient, self, target, weight, reduction);
}
KERNEL(aclnnBinaryCrossEntropyWithLogits, (Tensor self, Tensor target, OptionalTensor weight,
                                           OptionalTensor positive_weight, int64_t reduction, Output result)) {
    result = at::binary_cross_entropy_with_logits(self, target, weight, positive_weight, reduction);
}
KERNEL(aclnnBinaryCrossEntropyWithLogitsBackward, (Tensor gradient, Tensor self, Tensor target, OptionalTensor weight,
                                                   OptionalTensor positive_weight, int64_t reduction, Output result)) {
    result = cross_entropy_with_logits_gradient(gradient, self, target, weight, positive_weight, reduction);
}
LOSS(aclnnSoftMarginLoss, at::soft_margin_loss)
LOSS_BACKWARD(aclnnSoftMarginLossBackward, at::soft_margin_loss_backward)
KERNEL(aclnnMultilabelMarginLoss, (Tensor self, Tensor target, int64_t reduction, Output result, Output is_target)) {
    const auto loss = at::multilabel_margin_loss_forward(at_least_float(self), classes_of(target), reduction);
    result = std::get<0>(loss);
    is_target = std::get<1>(loss);
}

// Divergence of distributions.
KERNEL(aclnnKlDiv, (Tensor self, Tensor target, int64_t reduction, bool log_target, Output result)) {
    result = at::kl_div(self, target, reduction, log_target);
}
KERNEL(aclnnKlDivBackward,
       (Tensor gradient, Tensor self, Tensor target, int64_t reduction, bool log_target, Output result)) {
    result = kl_div_gradient(gradient, self, target, reduction, log_target);
}
KERNEL(aclnnKlDivTargetBackward,
       (Tensor gradient, Tensor self, Tensor target, int64_t reduction, bool log_target, Output result)) {
    result = kl_div_target_gradient(gradient, self, target, reduction, log_target);
}

}  // namespace virtual_npu
