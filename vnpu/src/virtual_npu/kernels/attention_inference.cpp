// Fused attention for inference: one function for whole prompts, one for a token after a cache, and one that does both.
// The cache has keys and values, in one piece or in pages. Quantised inputs and results and shared prefixes are not
// emulated.
#include "attention_core.h"

namespace virtual_npu {
namespace {

struct InferenceCall {
    Tensor query;
    TensorList keys;  // one tensor with all sequences, or one for each
    TensorList values;
    OptionalTensor bias;
    OptionalTensor mask;
    OptionalIntList query_lengths;  // where each sequence ends if they lie in a row
    OptionalIntList key_lengths;
    OptionalTensor pages;  // (batch, pages): which blocks of the cache belong to a sequence
    OptionalTensor query_rope;
    OptionalTensor key_rope;
    OptionalTensor sink;
    int64_t key_heads = 0;  // 0: as many as the query's
};

void refuse_quantised(std::initializer_list<OptionalTensor> parameters) {
    for (const OptionalTensor& parameter : parameters) {
        if (parameter) throw std::invalid_argument("attention with quantised values is not emulated");
    }
}

// "BNSD_BSND" names the layout of the query and that of the result.
Text layout_of_query(Text layout) { return layout.substr(0, layout.find('_')); }
Text layout_of_result(Text layout) {
    const size_t separator = layout.find('_');
    return separator == Text::npos ? layout : layout.substr(separator + 1);
}

bool is_in_a_row(Text layout) { return layout == "TND" || layout == "NTD"; }

// The length of a sequence; one number may stand for all.
int64_t length_of(const OptionalIntList& lengths, int64_t index, int64_t otherwise) {
    if (!lengths || lengths->empty()) return otherwise;
    return lengths->size() == 1 ? lengths->front() : lengths->at(index);
}

// Keys or values of one sequence from the blocks of a cache: (blocks, block, heads * depth), or with heads in front of
// the block.
Tensor from_pages(const Tensor& cache, const Tensor& pages, int64_t length, int64_t heads) {
    const int64_t block = cache.size(-2);
    const Tensor used = pages.narrow(0, 0, (length + block - 1) / block).to(at::kLong);
    const Tensor blocks = cache.index_select(0, used);
    const Tensor in_order = cache.dim() == 4 ? blocks.transpose(0, 1).flatten(1, 2)
                                             : blocks.flatten(0, 1).unflatten(1, {heads, -1}).transpose(0, 1);
    return in_order.narrow(1, 0, length);
}

class InferenceOperand {
public:
    InferenceOperand(const TensorList& tensors, const InferenceCall& call, Text layout, int64_t heads)
        : tensors_(tensors), call_(call), layout_(layout), heads_(heads) {}

    Tensor sequence(int64_t index) const {
        if (call_.pages) {
            return from_pages(tensors_.at(0), call_.pages->select(0, index), call_.key_lengths->at(index), heads_);
        }
        if (is_in_a_row(layout_)) return Sequences(tensors_.at(0), layout_, heads_, *call_.key_lengths)[index];
        const bool separate = tensors_.size() > 1;
        const Tensor whole = Sequences(tensors_.at(separate ? index : 0), layout_, heads_)[separate ? 0 : index];
        return whole.narrow(1, 0, length_of(call_.key_lengths, index, whole.size(1)));
    }

private:
    const TensorList& tensors_;
    const InferenceCall& call_;
    Text layout_;
    int64_t heads_;
};

// A mask of one row for each sequence, as decoding has it, gets the dimension of the queries.
OptionalTensor mask_with_queries(const OptionalTensor& mask, int64_t batch, int64_t queries) {
    if (mask && mask->dim() == 2 && queries == 1 && mask->size(0) == batch) return mask->unsqueeze(1);
    return mask;
}

void inference_attention(const InferenceCall& call, const AttentionSettings& settings, Output result,
                         Output log_sum_exp) {
    const Text layout = layout_of_query(settings.layout);
    const int64_t heads = settings.heads;
    const int64_t key_heads = call.key_heads == 0 ? heads : call.key_heads;
    const IntList ends = call.query_lengths.value_or(IntList());
    const Sequences query(call.query, layout, heads, ends);
    const InferenceOperand key(call.keys, call, layout, key_heads);
    const InferenceOperand value(call.values, call, layout, key_heads);
    require_floating(call.query);
    for (const TensorList* operands : {&call.keys, &call.values}) {
        for (const Tensor& operand : *operands) require_one_type({call.query, operand});
        const bool separate = operands->size() > 1;
        require(call.pages || is_in_a_row(layout) ||
                    (separate ? static_cast<int64_t>(operands->size())
                              : Sequences(operands->at(0), layout, key_heads).count()) == query.count(),
                "query, key and value have different numbers of sequences");
    }
    for (size_t index = 0; index < call.keys.size(); ++index) {
        const Tensor& value_cache = call.values.at(index);
        require_sizes(call.keys[index].flatten(0, -2), {value_cache.flatten(0, -2).size(0), call.keys[index].size(-1)},
                      "the key");
    }
    require(!call.pages || call.pages->size(0) == query.count(), "there are not as many rows of pages as sequences");
    const Tensor target = result.tensor();
    target.zero_();  // what lies behind the end of a sequence
    const Sequences results(target, layout_of_result(settings.layout), heads, ends);
    for (int64_t index = 0; index < query.count(); ++index) {
        AttentionInput input;
        const Tensor all_queries = query[index];
        // A single query is one whatever the lengths say: they are those of keys there, in decoders that pass both.
        const bool is_whole = is_in_a_row(layout) || all_queries.size(1) == 1;
        const int64_t queries =
            is_whole ? all_queries.size(1) : length_of(call.query_lengths, index, all_queries.size(1));
        input.query = all_queries.narrow(1, 0, queries).to(at::kFloat);
        input.key = key.sequence(index).to(at::kFloat);
        input.value = value.sequence(index).to(at::kFloat);
        if (call.query_rope && call.key_rope) {
            const Tensor more = Sequences(*call.query_rope, layout, heads, ends)[index].narrow(1, 0, queries);
            const TensorList key_ropes{*call.key_rope};
            input.query = at::cat({input.query, more.to(at::kFloat)}, -1);
            input.key = at::cat(
                {input.key, InferenceOperand(key_ropes, call, layout, key_heads).sequence(index).to(at::kFloat)}, -1);
        }
        const int64_t keys = input.key.size(1);
        if (call.bias) input.bias = part_for_sequence(*call.bias, index, queries, keys).to(at::kFloat);
        input.hidden =
            hidden_keys(settings, mask_with_queries(call.mask, query.count(), queries), index, queries, keys);
        if (call.sink) input.sink = call.sink->to(at::kFloat);
        check_attention(input);
        const AttentionResult attended = attend(input, settings);
        results[index].narrow(1, 0, queries).copy_(attended.value);
        if (log_sum_exp) {
            const Sequences rows(log_sum_exp.tensor(), is_in_a_row(layout) ? "TND" : "BNSD", heads, ends);
            rows[index].narrow(1, 0, queries).copy_(attended.greatest_score + at::log(attended.weight_sum));
        }
    }
}

// The bias is added to scaled scores.
AttentionSettings inference_settings(double scale, int64_t before, int64_t after, int64_t heads, Text layout,
                                     int64_t sparse_mode) {
    return {scale, 1, before, after, heads, layout, sparse_mode, 0, {}, {}, {}};
}

}  // namespace

KERNEL_WITH_WORKSPACE(aclnnPromptFlashAttentionV3,
                      (Tensor query, Tensor key, Tensor value, OptionalTensor bias, OptionalTensor mask,
                       OptionalIntList query_lengths, OptionalIntList key_lengths, OptionalTensor dequantise1,
                       OptionalTensor quantise1, OptionalTensor dequantise2, OptionalTensor quantise2,
                       OptionalTensor /*offset*/, int64_t heads, double scale, int64_t before, int64_t after,
                       Text layout, int64_t key_heads, int64_t sparse_mode, int64_t /*inner_precise*/, Output result)) {
    refuse_quantised({dequantise1, quantise1, dequantise2, quantise2});
    inference_attention({query, {key}, {value}, bias, mask, query_lengths, key_lengths, {}, {}, {}, {}, key_heads},
                        inference_settings(scale, before, after, heads, layout, sparse_mode), result, Output(nullptr));
}

KERNEL_WITH_WORKSPACE(aclnnIncreFlashAttentionV4,
                      (Tensor query, TensorList keys, TensorList values, OptionalTensor bias, OptionalTensor mask,
                       OptionalIntList key_lengths, OptionalTensor dequantise1, OptionalTensor quantise1,
                       OptionalTensor dequantise2, OptionalTensor quantise2, OptionalTensor /*offset*/,
                       OptionalTensor antiquantise, OptionalTensor /*antiquantise_offset*/, OptionalTensor pages,
                       OptionalTensor /*padding*/, int64_t heads, double scale, Text layout, int64_t key_heads,
                       int64_t /*block_size*/, int64_t /*inner_precise*/, Output result)) {
    refuse_quantised({dequantise1, quantise1, dequantise2, quantise2, antiquantise});
    inference_attention({query, keys, values, bias, mask, {}, key_lengths, pages, {}, {}, {}, key_heads},
                        inference_settings(scale, INT32_MAX, INT32_MAX, heads, layout, 0), result, Output(nullptr));
}

KERNEL_WITH_WORKSPACE(aclnnFusedInferAttentionScoreV2,
                      (Tensor query, TensorList keys, TensorList values, OptionalTensor bias, OptionalTensor mask,
                       OptionalIntList query_lengths, OptionalIntList key_lengths, OptionalTensor dequantise1,
                       OptionalTensor quantise1, OptionalTensor dequantise2, OptionalTensor quantise2,
                       OptionalTensor /*offset*/, OptionalTensor antiquantise, OptionalTensor /*antiquantise_offset*/,
                       OptionalTensor pages, OptionalTensor /*query_padding*/, OptionalTensor /*key_padding*/,
                       OptionalTensor key_antiquantise, OptionalTensor /*key_offset*/,
                       OptionalTensor value_antiquantise, OptionalTensor /*value_offset*/, OptionalTensor key_prefix,
                       OptionalTensor value_prefix, OptionalIntList /*prefix_length*/, int64_t heads, double scale,
                       int64_t before, int64_t after, Text layout, int64_t key_heads, int64_t sparse_mode,
                       int64_t /*inner_precise*/, int64_t /*block_size*/, int64_t /*antiquantise_mode*/,
                       bool with_log_sum_exp, int64_t /*key_mode*/, int64_t /*value_mode*/, Output result,
                       Output log_sum_exp)) {
    refuse_quantised({dequantise1, quantise1, dequantise2, quantise2, antiquantise, key_antiquantise,
                      value_antiquantise, key_prefix, value_prefix});
    inference_attention({query, keys, values, bias, mask, query_lengths, key_lengths, pages, {}, {}, {}, key_heads},
                        inference_settings(scale, before, after, heads, layout, sparse_mode), result,
                        with_log_sum_exp ? log_sum_exp : Output(nullptr));
}

KERNEL_WITH_WORKSPACE(aclnnFusedInferAttentionScoreV3,
                      (Tensor query, TensorList keys, TensorList values, OptionalTensor bias, OptionalTensor mask,
                       OptionalIntList query_lengths, OptionalIntList key_lengths, OptionalTensor dequantise1,
                       OptionalTensor quantise1, OptionalTensor dequantise2, OptionalTensor quantise2,
                       OptionalTensor /*offset*/, OptionalTensor antiquantise, OptionalTensor /*antiquantise_offset*/,
                       OptionalTensor pages, OptionalTensor /*query_padding*/, OptionalTensor /*key_padding*/,
                       OptionalTensor key_antiquantise, OptionalTensor /*key_offset*/,
                       OptionalTensor value_antiquantise, OptionalTensor /*value_offset*/, OptionalTensor key_prefix,
                       OptionalTensor value_prefix, OptionalIntList /*prefix_length*/, OptionalTensor query_rope,
                       OptionalTensor key_rope, OptionalTensor key_rope_antiquantise, int64_t heads, double scale,
                       int64_t before, int64_t after, Text layout, int64_t key_heads, int64_t sparse_mode,
                       int64_t /*inner_precise*/, int64_t /*block_size*/, int64_t /*antiquantise_mode*/,
                       bool with_log_sum_exp, int64_t /*key_mode*/, int64_t /*value_mode*/, Output result,
                       Output log_sum_exp)) {
    refuse_quantised({dequantise1, quantise1, dequantise2, quantise2, antiquantise, key_antiquantise,
                      value_antiquantise, key_prefix, value_prefix, key_rope_antiquantise});
    inference_attention(
        {query, keys, values, bias, mask, query_lengths, key_lengths, pages, query_rope, key_rope, {}, key_heads},
        inference_settings(scale, before, after, heads, layout, sparse_mode), result,
        with_log_sum_exp ? log_sum_exp : Output(nullptr));
}

KERNEL_WITH_WORKSPACE(aclnnFusedInferAttentionScoreV4,
                      (Tensor query, TensorList keys, TensorList values, OptionalTensor bias, OptionalTensor mask,
                       OptionalIntList query_lengths, OptionalIntList key_lengths, OptionalTensor dequantise1,
                       OptionalTensor quantise1, OptionalTensor dequantise2, OptionalTensor quantise2,
                       OptionalTensor /*offset*/, OptionalTensor antiquantise, OptionalTensor /*antiquantise_offset*/,
                       OptionalTensor pages, OptionalTensor /*query_padding*/, OptionalTensor /*key_padding*/,
                       OptionalTensor key_antiquantise, OptionalTensor /*key_offset*/,
                       OptionalTensor value_antiquantise, OptionalTensor /*value_offset*/, OptionalTensor key_prefix,
                       OptionalTensor value_prefix, OptionalIntList /*prefix_length*/, OptionalTensor query_rope,
                       OptionalTensor key_rope, OptionalTensor key_rope_antiquantise, OptionalTensor query_antiquantise,
                       OptionalTensor sink, int64_t heads, double scale, int64_t before, int64_t after, Text layout,
                       int64_t key_heads, int64_t sparse_mode, int64_t /*inner_precise*/, int64_t /*block_size*/,
                       int64_t /*antiquantise_mode*/, bool with_log_sum_exp, int64_t /*key_mode*/,
                       int64_t /*value_mode*/, int64_t /*query_mode*/, Output result, Output log_sum_exp)) {
    refuse_quantised({dequantise1, quantise1, dequantise2, quantise2, antiquantise, key_antiquantise,
                      value_antiquantise, key_prefix, value_prefix, key_rope_antiquantise, query_antiquantise});
    inference_attention(
        {query, keys, values, bias, mask, query_lengths, key_lengths, pages, query_rope, key_rope, sink, key_heads},
        inference_settings(scale, before, after, heads, layout, sparse_mode), result,
        with_log_sum_exp ? log_sum_exp : Output(nullptr));
}

}  // namespace virtual_npu
