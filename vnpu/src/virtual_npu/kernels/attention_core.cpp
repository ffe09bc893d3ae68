// Attention on one sequence: see attention_core.h.
#include "attention_core.h"

#include <algorithm>
#include <limits>

namespace virtual_npu {
namespace {

// The sparse modes of the device's attention.
enum SparseMode : int64_t {
    kMaskAndBand = 0,
    kWholeMask = 1,
    kCausalFromLeft = 2,   // the first query sees the first key
    kCausalFromRight = 3,  // the last query sees the last key
    kBandFromRight = 4,
    kPrefix = 5,
    kPrefixShortMask = 6,
};

Tensor repeat_heads(const Tensor& tensor, int64_t heads) {
    return tensor.size(0) == heads ? tensor : tensor.repeat_interleave(heads / tensor.size(0), 0);
}

// Gradients of the repeated heads, summed for each original head.
Tensor sum_heads(const Tensor& gradient, int64_t heads) {
    return gradient.size(0) == heads ? gradient : gradient.unflatten(0, {heads, -1}).sum(1);
}

Tensor masked_scores(const AttentionInput& input, const AttentionSettings& settings) {
    Tensor scores = at::matmul(input.query, repeat_heads(input.key, input.query.size(0)).transpose(1, 2));
    const bool scale_last = settings.bias_kind == 1;
    if (!scale_last) scores.mul_(settings.scale);
    if (input.bias) scores.add_(*input.bias);
    if (scale_last) scores.mul_(settings.scale);
    if (input.hidden) scores.masked_fill_(*input.hidden, -std::numeric_limits<float>::infinity());
    return scores;
}

Tensor after_dropout(const Tensor& weights, const AttentionInput& input, const AttentionSettings& settings) {
    return input.kept ? weights * *input.kept / settings.keep_probability : weights;
}

// Distances that stand for "without bound" come as the largest 32-bit number and more.
bool bounded(int64_t distance) { return distance < INT32_MAX; }

}  // namespace

Sequences::Sequences(const Tensor& tensor, Text layout, int64_t heads, const IntList& ends) : ends_(ends) {
    if (layout == "BNSD") {
        heads_first_ = tensor;
    } else if (layout == "BSND") {
        heads_first_ = tensor.transpose(1, 2);
    } else if (layout == "BSH") {
        heads_first_ = tensor.unflatten(2, {heads, -1}).transpose(1, 2);
    } else if (layout == "SBH") {
        heads_first_ = tensor.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
    } else if (layout == "NSD") {
        heads_first_ = tensor.unsqueeze(0);
    } else if (layout == "TND") {
        heads_first_ = tensor.transpose(0, 1);
    } else if (layout == "NTD") {
        heads_first_ = tensor;
    } else {
        throw std::invalid_argument("attention in the layout " + std::string(layout) + " is not emulated");
    }
    const bool in_a_row = layout == "TND" || layout == "NTD";
    if (!in_a_row) ends_.clear();  // lengths within a rectangular batch are the caller's matter
    if (!in_a_row) return;
    require(!ends_.empty(), "sequences in a row need the lengths of the sequences");
    require(std::is_sorted(ends_.begin(), ends_.end()) && ends_.front() >= 0 && ends_.back() == heads_first_.size(1),
            "the ends of the sequences are not those of the sequences in a row");
}

Tensor Sequences::operator[](int64_t index) const {
    if (ends_.empty()) return heads_first_.select(0, index);
    const int64_t begin = index == 0 ? 0 : ends_[index - 1];
    return heads_first_.slice(1, begin, ends_.at(index));
}

Tensor part_for_sequence(const Tensor& whole, int64_t index, int64_t queries, int64_t keys) {
    Tensor part = whole;
    if (part.dim() >= 3) part = part.select(0, part.size(0) == 1 ? 0 : index);
    if (part.size(-2) > queries) part = part.narrow(-2, 0, queries);
    if (part.size(-1) > keys) part = part.narrow(-1, 0, keys);
    return part;
}

OptionalTensor hidden_keys(const AttentionSettings& settings, const OptionalTensor& mask, int64_t index,
                           int64_t queries, int64_t keys) {
    const Tensor row = at::arange(queries, at::kLong).unsqueeze(1);
    const Tensor column = at::arange(keys, at::kLong).unsqueeze(0);
    const int64_t shift = keys - queries;
    const auto outside_band = [&](const Tensor& middle) {
        Tensor outside = at::zeros({queries, keys}, at::kBool);
        if (bounded(settings.tokens_before)) outside.logical_or_(column < middle - settings.tokens_before);
        if (bounded(settings.tokens_after)) outside.logical_or_(column > middle + settings.tokens_after);
        return outside;
    };
    switch (settings.sparse_mode) {
        case kMaskAndBand:
            if (!mask) return std::nullopt;  // without a mask the band does not count
            return part_for_sequence(truth_values(*mask), index, queries, keys).logical_or(outside_band(row));
        case kWholeMask:
            if (!mask) return std::nullopt;
            return part_for_sequence(truth_values(*mask), index, queries, keys);
        // The mask that comes with the following modes is a fixed triangle; the positions say as much.
        case kCausalFromLeft:
            return column > row;
        case kCausalFromRight:
            return column > row + shift;
        case kBandFromRight:
            return outside_band(row + shift);
        case kPrefix:
        case kPrefixShortMask:
            return (column > row + shift).logical_and(column >= settings.prefixes.at(index));
        default:
            throw std::invalid_argument("attention in sparse mode " + std::to_string(settings.sparse_mode) +
                                        " is not emulated");
    }
}

void check_attention(const AttentionInput& input) {
    require(input.query.dim() == 3 && input.key.dim() == 3 && input.value.dim() == 3,
            "query, key or value does not have the dimensions of the layout");
    require(input.key.size(0) > 0 && input.query.size(0) % input.key.size(0) == 0,
            "the heads of the key are no divisor of the heads of the query");
    require(input.value.size(0) == input.key.size(0), "key and value have different numbers of heads");
    require(input.value.size(1) == input.key.size(1), "key and value have different lengths");
    require(input.query.size(2) == input.key.size(2), "query and key have different depths");
}

AttentionResult attend(const AttentionInput& input, const AttentionSettings& settings) {
    const int64_t heads = input.query.size(0);
    Tensor weights = masked_scores(input, settings);
    Tensor greatest =
        weights.size(-1) == 0 ? at::zeros({heads, weights.size(1), 1}) : at::amax(weights, -1, /*keepdim=*/true);
    if (input.sink) greatest = at::maximum(greatest, input.sink->view({heads, 1, 1}));
    greatest = greatest.clamp_min(std::numeric_limits<float>::lowest());
    weights.sub_(greatest).exp_();
    Tensor sum = weights.sum(-1, /*keepdim=*/true);
    if (input.sink) sum = sum + at::exp(input.sink->view({heads, 1, 1}) - greatest);
    sum.masked_fill_(sum == 0, 1);  // a query without keys
    weights.div_(sum);
    return {at::matmul(after_dropout(weights, input, settings), repeat_heads(input.value, heads)), greatest, sum};
}

AttentionGradients attend_backward(const AttentionInput& input, const AttentionSettings& settings,
                                   const Tensor& gradient, const Tensor& greatest_score, const Tensor& weight_sum) {
    const int64_t heads = input.query.size(0);
    const int64_t key_heads = input.key.size(0);
    const Tensor weights = masked_scores(input, settings).sub_(greatest_score).exp_().div_(weight_sum);
    const Tensor value_gradient = at::matmul(after_dropout(weights, input, settings).transpose(1, 2), gradient);
    const Tensor by_weight =
        after_dropout(at::matmul(gradient, repeat_heads(input.value, heads).transpose(1, 2)), input, settings);
    const Tensor row_sum = (weights * by_weight).sum(-1, /*keepdim=*/true);
    const Tensor by_score = weights * (by_weight - row_sum);
    AttentionGradients gradients;
    gradients.query = at::matmul(by_score, repeat_heads(input.key, heads)).mul_(settings.scale);
    gradients.key = sum_heads(at::matmul(by_score.transpose(1, 2), input.query).mul_(settings.scale), key_heads);
    gradients.value = sum_heads(value_gradient, input.value.size(0));
    gradients.bias = settings.bias_kind == 1 ? by_score * settings.scale : by_score;
    if (input.sink) {
        const Tensor sink_weight = at::exp(input.sink->view({heads, 1, 1}) - greatest_score).div_(weight_sum);
        gradients.sink = -(sink_weight * row_sum).sum({1, 2});
    }
    return gradients;
}

}  // namespace virtual_npu
