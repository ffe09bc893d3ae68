// Fused attention for training on rectangular batches, in the versions of its aclnn function:
//
// - Version 2 adds a kind of bias.
// - Version 3 adds a sink.
// - Version 4 (of newer devices) adds the rotary part of query and key, and sequences in a row.
#include "attention_core.h"

namespace virtual_npu {

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScore,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, IntList prefixes, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, Output greatest_scores, Output weight_sums,
                       Output /*softmax*/, Output result)) {
    fused_attention({query, key, value, bias, drop_mask, mask, {}, {}, {}},
                    {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, {}, {}},
                    greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreV2,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, IntList prefixes, IntList /*query_start*/,
                       IntList /*key_start*/, double scale, double keep_probability, int64_t before, int64_t after,
                       int64_t heads, Text layout, int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind,
                       Output greatest_scores, Output weight_sums, Output /*softmax*/, Output result)) {
    fused_attention({query, key, value, bias, drop_mask, mask, {}, {}, {}},
                    {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, {}, {}},
                    greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreV3,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, OptionalTensor sink, IntList prefixes,
                       IntList /*query_start*/, IntList /*key_start*/, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, int64_t bias_kind, Output greatest_scores, Output weight_sums,
                       Output /*softmax*/, Output result)) {
    fused_attention({query, key, value, bias, drop_mask, mask, {}, {}, sink},
                    {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, {}, {}},
                    greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreV4,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor drop_mask,
                       OptionalTensor /*padding_mask*/, OptionalTensor mask, OptionalTensor query_rope,
                       OptionalTensor key_rope, OptionalTensor /*query_scale*/, OptionalTensor /*key_scale*/,
                       OptionalTensor /*value_scale*/, OptionalTensor sink, IntList prefixes, IntList query_ends,
                       IntList key_ends, IntList /*query_start*/, IntList /*key_start*/, double scale,
                       double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, int64_t /*result_type*/, int64_t bias_kind,
                       Text /*softmax_layout*/, Seed /*seed*/, Seed /*offset*/, Output greatest_scores,
                       Output weight_sums, Output /*softmax*/, Output result)) {
    fused_attention(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, sink},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        greatest_scores, weight_sums, result);
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreGrad,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, double scale, double keep_probability,
                       int64_t before, int64_t after, int64_t heads, Text layout, int64_t /*inner_precise*/,
                       int64_t sparse_mode, Output query_gradient, Output key_gradient, Output value_gradient,
                       Output bias_gradient)) {
    fused_attention_backward({query, key, value, bias, drop_mask, mask, {}, {}, {}},
                             {scale, keep_probability, before, after, heads, layout, sparse_mode, 1, prefixes, {}, {}},
                             {gradient, greatest_scores, weight_sums},
                             {query_gradient, key_gradient, value_gradient, bias_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreGradV2,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, IntList prefixes, IntList /*query_start*/, IntList /*key_start*/,
                       double scale, double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
                       int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind, Output query_gradient,
                       Output key_gradient, Output value_gradient, Output bias_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, {}, {}, {}},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, {}, {}},
        {gradient, greatest_scores, weight_sums}, {query_gradient, key_gradient, value_gradient, bias_gradient});
}

KERNEL_WITH_WORKSPACE(aclnnFlashAttentionScoreGradV3,
                      (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias,
                       OptionalTensor drop_mask, OptionalTensor /*padding_mask*/, OptionalTensor mask,
                       Tensor greatest_scores, Tensor weight_sums, OptionalTensor /*softmax*/,
                       OptionalTensor /*result*/, OptionalTensor sink, IntList prefixes, IntList /*query_start*/,
                       IntList /*key_start*/, double scale, double keep_probability, int64_t before, int64_t after,
                       int64_t heads, Text layout, int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind,
                       Output query_gradient, Output key_gradient, Output value_gradient, Output bias_gradient,
                       Output sink_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, {}, {}, sink},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, {}, {}},
        {gradient, greatest_scores, weight_sums},
        {query_gradient, key_gradient, value_gradient, bias_gradient, Output(nullptr), Output(nullptr), sink_gradient});
}

KERNEL_WITH_WORKSPACE(
    aclnnFlashAttentionScoreGradV4,
    (Tensor query, Tensor key, Tensor value, Tensor gradient, OptionalTensor bias, OptionalTensor drop_mask,
     OptionalTensor /*padding_mask*/, OptionalTensor mask, Tensor greatest_scores, Tensor weight_sums,
     OptionalTensor /*softmax*/, OptionalTensor /*result*/, OptionalTensor sink, OptionalTensor query_rope,
     OptionalTensor key_rope, OptionalTensor /*query_scale*/, OptionalTensor /*key_scale*/,
     OptionalTensor /*value_scale*/, OptionalTensor /*gradient_scale*/, OptionalTensor /*result_scale*/,
     IntList prefixes, IntList query_ends, IntList key_ends, IntList /*query_start*/, IntList /*key_start*/,
     double scale, double keep_probability, int64_t before, int64_t after, int64_t heads, Text layout,
     Text /*softmax_layout*/, int64_t /*inner_precise*/, int64_t sparse_mode, int64_t bias_kind, Seed /*seed*/,
     Seed /*offset*/, int64_t /*result_type*/, Output query_gradient, Output key_gradient, Output value_gradient,
     Output query_rope_gradient, Output key_rope_gradient, Output bias_gradient, Output sink_gradient)) {
    fused_attention_backward(
        {query, key, value, bias, drop_mask, mask, query_rope, key_rope, sink},
        {scale, keep_probability, before, after, heads, layout, sparse_mode, bias_kind, prefixes, query_ends, key_ends},
        {gradient, greatest_scores, weight_sums},
        {query_gradient, key_gradient, value_gradient, bias_gradient, query_rope_gradient, key_rope_gradient,
         sink_gradient});
}

}  // namespace virtual_npu
