// Normalisation: batch (also across processes), layer, group and root-mean-square norms. Each comes alone, or fused
// with an addition or an activation.
//
// torch_npu keeps statistics in float where the CPU expects them in the type of the input. So inputs of half precision
// are widened before they are normalised.
#include "kernel.h"

namespace virtual_npu {
namespace {

// A running statistic of a batch norm, which is an input that is updated.
void update_running(const OptionalTensor& statistic, const OptionalTensor& updated) {
    if (statistic.has_value() && !statistic->is_alias_of(*updated)) statistic->copy_(*updated);
}

// Channels are the second dimension of a batch-normalised tensor.
IntList all_but_channels(const Tensor& tensor) {
    IntList dimensions{0};
    for (int64_t dimension = 2; dimension < tensor.dim(); ++dimension) dimensions.push_back(dimension);
    return dimensions;
}

Tensor per_channel(const Tensor& values, const Tensor& like) {
    IntList sizes(like.dim(), 1);
    sizes[1] = values.numel();
    return widened(values).reshape(sizes);
}

void blend_into(const OptionalTensor& running, const Tensor& current, double momentum) {
    if (running.has_value()) running->copy_(*running * (1 - momentum) + current * momentum);
}

struct Normalized {
    Tensor values, mean, inverse_deviation;
};

Normalized layer_normalized(const Tensor& input, at::IntArrayRef shape, const OptionalTensor& weight,
                            const OptionalTensor& bias, double epsilon) {
    const auto [values, mean, inverse_deviation] =
        at::native_layer_norm(widened(input), shape, widened(weight), widened(bias), epsilon);
    return {values, mean, inverse_deviation};
}

struct LayerNormGradients {
    Tensor input, weight, bias;
};

LayerNormGradients layer_norm_gradients(const Tensor& gradient, const Tensor& input, at::IntArrayRef shape,
                                        const Tensor& mean, const Tensor& inverse_deviation,
                                        const OptionalTensor& weight, const OptionalTensor& bias,
                                        std::array<bool, 3> wanted) {
    // The statistics may come in any shape with one number for each row.
    IntList rows(input.sizes().begin(), input.sizes().end());
    std::fill(rows.end() - static_cast<ptrdiff_t>(shape.size()), rows.end(), 1);
    const auto [of_input, of_weight, of_bias] = at::native_layer_norm_backward(
        widened(gradient), widened(input), shape, widened(mean).reshape(rows), widened(inverse_deviation).reshape(rows),
        widened(weight), widened(bias), wanted);
    return {of_input, of_weight, of_bias};
}

Tensor group_norm_of(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, int64_t groups,
                     double epsilon, Output mean, Output inverse_deviation) {
    const int64_t batch = input.size(0), channels = input.size(1);
    const int64_t positions = batch * channels == 0 ? 0 : input.numel() / (batch * channels);
    const auto [values, means, deviations] = at::native_group_norm(
        widened(input).contiguous(), widened(weight), widened(bias), batch, channels, positions, groups, epsilon);
    mean = means;
    inverse_deviation = deviations;
    return values;
}

// The sum of two inputs that are normalised together.
Tensor sum_of(const Tensor& first, const Tensor& second) {
    require_floating(first);
    require_one_type({first, second});
    require_sizes(second, first.sizes(), "the second input");
    return widened(first) + widened(second);
}

struct RmsNormalized {
    Tensor values, inverse_root;
};

// `weight` covers the last dimensions of the input, which are the ones normalised over.
RmsNormalized rms_norm_of(const Tensor& input, const Tensor& weight, double epsilon) {
    require_floating(input);
    require(weight.dim() > 0 && weight.dim() <= input.dim(), "the weight has no dimension or more than the input");
    require_sizes(weight, input.sizes().slice(input.dim() - weight.dim()), "the weight");
    IntList dimensions;
    for (int64_t dimension = -weight.dim(); dimension < 0; ++dimension) dimensions.push_back(dimension);
    const Tensor values = widened(input);
    const Tensor inverse_root = (values.square().mean(dimensions, true) + epsilon).rsqrt();
    return {values * inverse_root * widened(weight), inverse_root};
}

}  // namespace

// --- batch norm

KERNEL(aclnnBatchNorm, (Tensor input, OptionalTensor weight, OptionalTensor bias, OptionalTensor running_mean,
                        OptionalTensor running_variance, bool training, double momentum, double epsilon, Output result,
                        Output saved_mean, Output saved_inverse_deviation)) {
    const OptionalTensor mean = widened(running_mean), variance = widened(running_variance);
    const auto [values, batch_mean, batch_inverse_deviation] = at::native_batch_norm(
        widened(input), widened(weight), widened(bias), mean, variance, training, momentum, epsilon);
    result = values;
    if (!training) return;  // the caller does not read the batch's statistics
    saved_mean = batch_mean;
    saved_inverse_deviation = batch_inverse_deviation;
    update_running(running_mean, mean);
    update_running(running_variance, variance);
}

KERNEL(aclnnBatchNormBackward,
       (Tensor gradient, Tensor input, OptionalTensor weight, OptionalTensor running_mean,
        OptionalTensor running_variance, OptionalTensor saved_mean, OptionalTensor saved_inverse_deviation,
        bool training, double epsilon, BoolList output_mask, Output input_gradient, Output weight_gradient,
        Output bias_gradient)) {
    const auto [of_input, of_weight, of_bias] =
        at::native_batch_norm_backward(widened(gradient), widened(input), widened(weight), widened(running_mean),
                                       widened(running_variance), widened(saved_mean), widened(saved_inverse_deviation),
                                       training, epsilon, {output_mask.at(0), output_mask.at(1), output_mask.at(2)});
    if (output_mask.at(0)) input_gradient = of_input;
    if (output_mask.at(1)) weight_gradient = of_weight;
    if (output_mask.at(2)) bias_gradient = of_bias;
}

// --- batch norm across processes (SyncBatchNorm), in pieces

KERNEL(aclnnBatchNormStats, (Tensor input, double epsilon, Output mean, Output inverse_deviation)) {
    const Tensor values = widened(input);
    mean = values.mean(all_but_channels(input));
    inverse_deviation = (values.var(all_but_channels(input), 0, false) + epsilon).rsqrt();
}

KERNEL(aclnnBatchNormReduce, (Tensor input, Output sum, Output square_sum)) {
    require_floating(input);
    const Tensor values = widened(input);
    sum = values.sum(all_but_channels(input));
    square_sum = values.square().sum(all_but_channels(input));
}

KERNEL(aclnnBatchNormGatherStatsWithCounts,
       (Tensor /*input*/, Tensor means, Tensor inverse_deviations, OptionalTensor running_mean,
        OptionalTensor running_variance, double momentum, double epsilon, Tensor counts, Output result_mean,
        Output result_inverse_deviation)) {
    const Tensor count = widened(counts).to(at::kFloat).reshape({-1, 1}), each = widened(means);
    const Tensor total = count.sum();
    const Tensor mean = (each * count).sum(0) / total;
    const Tensor variances = widened(inverse_deviations).square().reciprocal() - epsilon;
    const Tensor squares = ((variances + (each - mean).square()) * count).sum(0);
    result_mean = mean;
    result_inverse_deviation = (squares / total + epsilon).rsqrt();
    blend_into(running_mean, mean, momentum);
    blend_into(running_variance, squares / (total - 1), momentum);
}

KERNEL(aclnnSyncBatchNormGatherStats,
       (Tensor sums, Tensor square_sums, Tensor counts, OptionalTensor running_mean, OptionalTensor running_variance,
        float momentum, float epsilon, Output result_mean, Output result_inverse_deviation)) {
    const Tensor total = counts.to(at::kFloat).sum();
    const Tensor mean = widened(sums).sum(0) / total;
    const Tensor variance = widened(square_sums).sum(0) / total - mean.square();
    result_mean = mean;
    result_inverse_deviation = (variance + epsilon).rsqrt();
    blend_into(running_mean, mean, momentum);
    blend_into(running_variance, variance * total / (total - 1), momentum);
}

KERNEL(aclnnBatchNormElemt, (Tensor input, OptionalTensor weight, OptionalTensor bias, Tensor mean,
                             Tensor inverse_deviation, double /*epsilon*/, Output result)) {
    Tensor values = (widened(input) - per_channel(mean, input)) * per_channel(inverse_deviation, input);
    if (weight.has_value()) values = values * per_channel(*weight, input);
    if (bias.has_value()) values = values + per_channel(*bias, input);
    result = values;
}

KERNEL(aclnnBatchNormReduceBackward,
       (Tensor gradient, Tensor input, Tensor mean, Tensor inverse_deviation, OptionalTensor /*weight*/,
        bool input_wanted, bool weight_wanted, bool bias_wanted, Output sum, Output product_sum, Output weight_gradient,
        Output bias_gradient)) {
    const Tensor values = widened(gradient);
    const Tensor plain = values.sum(all_but_channels(input));
    const Tensor product = (values * (widened(input) - per_channel(mean, input))).sum(all_but_channels(input));
    if (input_wanted) {
        sum = plain;
        product_sum = product;
    }
    if (weight_wanted) weight_gradient = product * widened(inverse_deviation);
    if (bias_wanted) bias_gradient = plain;
}

KERNEL(aclnnBatchNormElemtBackward,
       (Tensor gradient, Tensor input, Tensor mean, Tensor inverse_deviation, OptionalTensor weight, Tensor sum,
        Tensor product_sum, Tensor counts, Output result)) {
    const Tensor total = counts.to(at::kFloat).sum();
    const Tensor deviation = per_channel(inverse_deviation, input);
    const Tensor correlated = per_channel(product_sum, input) / total * deviation.square();
    Tensor values =
        widened(gradient) - per_channel(sum, input) / total - (widened(input) - per_channel(mean, input)) * correlated;
    values = values * deviation;
    if (weight.has_value()) values = values * per_channel(*weight, input);
    result = values;
}

// --- layer norm

#define LAYER_NORM(FUNCTION)                                                                                   \
    KERNEL(FUNCTION, (Tensor input, IntList shape, OptionalTensor weight, OptionalTensor bias, double epsilon, \
                      Output result, Output mean, Output inverse_deviation)) {                                 \
        const Normalized normalized = layer_normalized(input, shape, weight, bias, epsilon);                   \
        result = normalized.values;                                                                            \
        mean.assign_reshaped(normalized.mean);                                                                 \
        inverse_deviation.assign_reshaped(normalized.inverse_deviation);                                       \
    }

LAYER_NORM(aclnnLayerNorm)
LAYER_NORM(aclnnFastLayerNorm)

#undef LAYER_NORM

KERNEL(aclnnLayerNormBackward, (Tensor gradient, Tensor input, IntList shape, Tensor mean, Tensor inverse_deviation,
                                OptionalTensor weight, OptionalTensor bias, BoolList output_mask, Output input_gradient,
                                Output weight_gradient, Output bias_gradient)) {
    const LayerNormGradients gradients =
        layer_norm_gradients(gradient, input, shape, mean, inverse_deviation, weight, bias,
                             {output_mask.at(0), output_mask.at(1), output_mask.at(2)});
    if (output_mask.at(0)) input_gradient = gradients.input;
    if (output_mask.at(1)) weight_gradient = gradients.weight;
    if (output_mask.at(2)) bias_gradient = gradients.bias;
}

KERNEL(aclnnAddLayerNorm,
       (Tensor first, Tensor second, Tensor weight, Tensor bias, OptionalTensor added, double epsilon, bool sum_wanted,
        Output result, Output mean, Output inverse_deviation, Output result_sum)) {
    Tensor sum = sum_of(first, second);
    if (added.has_value()) sum = sum + widened(*added);
    const Normalized normalized = layer_normalized(sum, weight.sizes(), weight, bias, epsilon);
    result = normalized.values;
    mean = normalized.mean;
    inverse_deviation = normalized.inverse_deviation;
    if (sum_wanted) result_sum = sum;
}

KERNEL(aclnnAddLayerNormGrad,
       (Tensor gradient, Tensor first, Tensor second, Tensor inverse_deviation, Tensor mean, Tensor weight,
        OptionalTensor sum_gradient, Output input_gradient, Output weight_gradient, Output bias_gradient)) {
    const LayerNormGradients gradients = layer_norm_gradients(gradient, sum_of(first, second), weight.sizes(), mean,
                                                              inverse_deviation, weight, weight, {true, true, true});
    input_gradient = sum_gradient.has_value() ? gradients.input + widened(*sum_gradient) : gradients.input;
    weight_gradient = gradients.weight;
    bias_gradient = gradients.bias;
}

KERNEL(aclnnDeepNorm, (Tensor residual, Tensor branch, Tensor bias, Tensor weight, double alpha, double epsilon,
                       Output mean, Output inverse_deviation, Output result)) {
    require_one_type({residual, branch});
    require_sizes(branch, residual.sizes(), "the branch");
    const Normalized normalized =
        layer_normalized(widened(residual) * alpha + widened(branch), weight.sizes(), weight, bias, epsilon);
    result = normalized.values;
    mean = normalized.mean;
    inverse_deviation = normalized.inverse_deviation;
}

KERNEL(aclnnDeepNormGrad,
       (Tensor gradient, Tensor residual, Tensor branch, Tensor weight, Tensor mean, Tensor inverse_deviation,
        double alpha, Output residual_gradient, Output branch_gradient, Output bias_gradient, Output weight_gradient)) {
    const LayerNormGradients gradients =
        layer_norm_gradients(gradient, widened(residual) * alpha + widened(branch), weight.sizes(), mean,
                             inverse_deviation, weight, weight, {true, true, true});
    residual_gradient = gradients.input * alpha;
    branch_gradient = gradients.input;
    weight_gradient = gradients.weight;
    bias_gradient = gradients.bias;
}

// --- group norm

KERNEL(aclnnGroupNorm,
       (Tensor input, OptionalTensor weight, OptionalTensor bias, int64_t /*batch*/, int64_t /*channels*/,
        int64_t /*positions*/, int64_t groups, double epsilon, Output result, Output mean, Output inverse_deviation)) {
    result = group_norm_of(input, weight, bias, groups, epsilon, mean, inverse_deviation);
}

KERNEL(aclnnGroupNormBackward,
       (Tensor gradient, Tensor input, Tensor mean, Tensor inverse_deviation, OptionalTensor weight, int64_t batch,
        int64_t channels, int64_t positions, int64_t groups, BoolList output_mask, Output input_gradient,
        Output weight_gradient, Output bias_gradient)) {
    const auto [of_input, of_weight, of_bias] = at::native_group_norm_backward(
        widened(gradient).contiguous(), widened(input).contiguous(), widened(mean).contiguous(),
        widened(inverse_deviation).contiguous(), widened(weight), batch, channels, positions, groups,
        {output_mask.at(0), output_mask.at(1), output_mask.at(2)});
    if (output_mask.at(0)) input_gradient = of_input;
    if (output_mask.at(1)) weight_gradient = of_weight;
    if (output_mask.at(2)) bias_gradient = of_bias;
}

KERNEL(aclnnGroupNormSilu, (Tensor input, OptionalTensor weight, OptionalTensor bias, int64_t groups, double epsilon,
                            Output result, Output mean, Output inverse_deviation)) {
    result = at::silu(group_norm_of(input, weight, bias, groups, epsilon, mean, inverse_deviation));
}

KERNEL(aclnnGroupNormSwish,
       (Tensor input, OptionalTensor weight, OptionalTensor bias, int64_t groups, Text /*data_format*/, double epsilon,
        bool activate, double scale, Output result, Output mean, Output inverse_deviation)) {
    const Tensor values = group_norm_of(input, weight, bias, groups, epsilon, mean, inverse_deviation);
    result = activate ? values * (values * scale).sigmoid() : values;
}

KERNEL(aclnnGroupNormSwishGrad,
       (Tensor gradient, Tensor mean, Tensor inverse_deviation, Tensor input, Tensor weight, Tensor bias,
        int64_t groups, Text /*data_format*/, double scale, bool weight_wanted, bool bias_wanted, Output input_gradient,
        Output weight_gradient, Output bias_gradient)) {
    const int64_t batch = input.size(0), channels = input.size(1);
    const int64_t positions = batch * channels == 0 ? 0 : input.numel() / (batch * channels);
    require(groups > 0 && channels % groups == 0, "the groups are no divisor of the channels");
    const Tensor grouped = widened(input).reshape({batch, groups, channels / groups * positions});
    const Tensor normalized = (grouped - widened(mean).unsqueeze(-1)) * widened(inverse_deviation).unsqueeze(-1);
    const Tensor values = normalized.reshape(input.sizes()) * per_channel(weight, input) + per_channel(bias, input);
    const Tensor gate = (values * scale).sigmoid();
    const Tensor inner = widened(gradient) * gate * (1 + values * scale * (1 - gate));
    const auto [of_input, of_weight, of_bias] =
        at::native_group_norm_backward(inner.contiguous(), widened(input).contiguous(), widened(mean).contiguous(),
                                       widened(inverse_deviation).contiguous(), widened(weight), batch, channels,
                                       positions, groups, {true, weight_wanted, bias_wanted});
    input_gradient = of_input;
    if (weight_wanted) weight_gradient = of_weight;
    if (bias_wanted) bias_gradient = of_bias;
}

// --- root mean square norm

KERNEL(aclnnRmsNorm, (Tensor input, Tensor weight, double epsilon, Output result, Output inverse_root)) {
    const RmsNormalized normalized = rms_norm_of(input, weight, epsilon);
    result = normalized.values;
    inverse_root = normalized.inverse_root;
}

// Gemma's weights are what is added to one.
KERNEL(aclnnGemmaRmsNorm, (Tensor input, Tensor weight, double epsilon, Output result, Output inverse_root)) {
    const RmsNormalized normalized = rms_norm_of(input, widened(weight) + 1, epsilon);
    result = normalized.values;
    inverse_root = normalized.inverse_root;
}

KERNEL(aclnnRmsNormGrad, (Tensor gradient, Tensor input, Tensor inverse_root, Tensor weight, Output input_gradient,
                          Output weight_gradient)) {
    IntList normalized_over, batch;
    for (int64_t dimension = 0; dimension < input.dim(); ++dimension) {
        (dimension < input.dim() - weight.dim() ? batch : normalized_over).push_back(dimension);
    }
    IntList rows(input.sizes().begin(), input.sizes().end());
    for (const int64_t dimension : normalized_over) rows[dimension] = 1;
    const Tensor root = widened(inverse_root).reshape(rows);
    const Tensor values = widened(input) * root, incoming = widened(gradient);
    const Tensor scaled = incoming * widened(weight);
    input_gradient = (scaled - values * (scaled * values).mean(normalized_over, true)) * root;
    const Tensor products = incoming * values;
    weight_gradient = batch.empty() ? products : products.sum(batch);
}

KERNEL(aclnnAddRmsNorm, (Tensor first, Tensor second, Tensor weight, double epsilon, Output result, Output inverse_root,
                         Output result_sum)) {
    const Tensor sum = sum_of(first, second);
    const RmsNormalized normalized = rms_norm_of(sum, weight, epsilon);
    result = normalized.values;
    inverse_root = normalized.inverse_root;
    result_sum = sum;
}

KERNEL(aclnnAddRmsNormCast, (Tensor first, Tensor second, Tensor weight, double epsilon, Output result_in_float,
                             Output result, Output inverse_root, Output result_sum)) {
    const Tensor sum = sum_of(first, second);
    const RmsNormalized normalized = rms_norm_of(sum, weight, epsilon);
    result_in_float = normalized.values;
    result = normalized.values;
    inverse_root = normalized.inverse_root;
    result_sum = sum;
}

// Replaces the first addend by the normalised sum and the second by the sum.
KERNEL(aclnnInplaceAddRmsNorm, (Output first, Output second, Tensor weight, double epsilon, Output inverse_root)) {
    const Tensor sum = sum_of(first.tensor(), second.tensor());
    const RmsNormalized normalized = rms_norm_of(sum, weight, epsilon);
    inverse_root = normalized.inverse_root;
    first = normalized.values;
    second = sum;
}

}  // namespace virtual_npu
