// Fused attention for training on sequences in a row, in the versions of its aclnn function (backward: Unpadding):
//
// - Version 2 adds a kind of bias.
// - Version 3 adds the rotary part of query and key in tensors of their own.
// - Version 4 adds a layout of the statistics.
// - Version 5 has all of these and a sink.
#include "attention_core.h"

namespace virtual_npu {

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionVarLenScore,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, IntList prefixes, IntList query_ends,
                       IntList key_ends, double scale, double keep_probability, int64_t before, int64_t after,
                       int64_t heads, Text layout, int64_t /*inner_precise*/, int64_t sparse_mode,
                       Output greatest_scores, Output weight_sums, Output /*softmax*/, Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionVarLenScoreV2,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, IntList prefixes, IntList query_ends,
                       IntList key_ends, IntList /*query_start*/, IntList /*key_start*/, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind, Output greatest_scores,
                       Output weight_sums, Output /*softmax*/, Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionVarLenScoreV3,
                      (Tensor query, OptionalTensor query_rope, Tensor key, OptionalTensor key_rope, Tensor value,
                       OptionalTensor bias, OptionalTensor drop_mask, OptionalTensor /*padding_mask*/,
                       OptionalTensor mask, IntList prefixes, IntList query_ends, IntList key_ends,
                       IntList /*query_start*/, IntList /*key_start*/, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, int64_t bias_kind, Output greatest_scores, Output weight_sums,
                       Output /*softmax*/, Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionVarLenScoreV4,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, IntList prefixes, IntList query_ends,
                       IntList key_ends, double scale, double keep_probability, int64_t before, int64_t after,
                       int64_t heads, Text layout, int64_t /*inner_precise*/, int64_t sparse_mode,
                       Text /*softmax_layout*/, Output greatest_scores, Output weight_sums, Output /*softmax*/,
                       Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionVarLenScoreV5,
                      (Tensor query, OptionalTensor query_rope, Tensor key, OptionalTensor key_rope, Tensor value,
                       OptionalTensor bias, OptionalTensor drop_mask, OptionalTensor /*padding_mask*/,
                       OptionalTensor mask, OptionalTensor sink, IntList prefixes, IntList query_ends, IntList key_ends,
                       IntList /*query_start*/, IntList /*key_start*/, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, int64_t bias_kind, Text /*softmax_layout*/, Output greatest_scores,
                       Output weight_sums, Output /*softmax*/, Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, sink},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGrad,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, IntList query_ends, IntList key_ends, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, Output query_gradient, Output key_gradient,
                       Output value_gradient, Output bias_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums}, {query_gradient, key_gradient, value_gradient, bias_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGradV2,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, IntList query_ends, IntList key_ends,
                       IntList /*query_start*/, IntList /*key_start*/, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, int64_t bias_kind, Output query_gradient, Output key_gradient,
                       Output value_gradient, Output bias_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums}, {query_gradient, key_gradient, value_gradient, bias_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGradV3,
                      (Tensor query, OptionalTensor query_rope, Tensor key, OptionalTensor key_rope, Tensor value,
                       Tensor gradient, OptionalTensor bias, OptionalTensor drop_mask, OptionalTensor /*padding_mask*/,
                       OptionalTensor mask, Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, IntList query_ends, IntList key_ends,
                       IntList /*query_start*/, IntList /*key_start*/, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, int64_t bias_kind, Output query_gradient, Output query_rope_gradient,
                       Output key_gradient, Output key_rope_gradient, Output value_gradient, Output bias_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums},
        {query_gradient, key_gradient, value_gradient, bias_gradient, query_rope_gradient, key_rope_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGradV4,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, IntList query_ends, IntList key_ends, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, Output query_gradient, Output key_gradient,
                       Output value_gradient, Output bias_gradient, Text /*softmax_layout*/)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums}, {query_gradient, key_gradient, value_gradient, bias_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionUnpaddingScoreGradV5,
                      (Tensor query, OptionalTensor query_rope, Tensor key, OptionalTensor key_rope, Tensor value,
                       Tensor gradient, OptionalTensor bias, OptionalTensor drop_mask, OptionalTensor /*padding_mask*/,
                       OptionalTensor mask, Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, OptionalTensor sink, IntList prefixes, IntList query_ends,
                       IntList key_ends, IntList /*query_start*/, IntList /*key_start*/, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind, Text /*softmax_layout*/,
                       Output query_gradient, Output query_rope_gradient, Output key_gradient, Output key_rope_gradient,
                       Output value_gradient, Output bias_gradient, Output sink_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, sink},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums},
        {query_gradient, key_gradient, value_gradient, bias_gradient, query_rope_gradient, key_rope_gradient,
         sink_gradient});
}

}  // namespace virtual_npu
