// Attention: where the sequences lie in the tensors of a batch, attention on one sequence, and on a batch with dropout
// and gradients. For the kernels of attention_*.cpp, which differ in the arguments of their aclnn functions.
//
// All is computed in float32, as the device accumulates. Where a query may look at no key its result is zero.
#pragma once

#include "kernel.h"

namespace virtual_npu {

// Whether an optional tensor is there; the caller may stand a tensor of shape (0) for one that is not.
inline bool present(const OptionalTensor& tensor) { return tensor && tensor->sizes() != at::IntArrayRef({0}); }

// The common settings of every variant of the function.
struct AttentionSettings {
    double scale = 1;
    double keep_probability = 1;
    int64_t tokens_before = INT32_MAX;  // how far a query looks back and ahead, in the modes that ask
    int64_t tokens_after = INT32_MAX;
    int64_t heads = 1;
    Text layout;
    int64_t sparse_mode = 0;
    int64_t bias_kind = 1;  // whether scores are scaled after (1) or before (0) the bias is added
    IntList prefixes;
    IntList query_ends;  // layout TND: where each sequence ends
    IntList key_ends;
};

// One operand of attention: its sequences as views (heads, length, depth), whatever the layout.
class Sequences {
public:
    // `heads` counts only in layouts that have heads and depth in one dimension.
    Sequences(const Tensor& tensor, Text layout, int64_t heads, const IntList& ends = {});
    int64_t count() const { return ends_.empty() ? heads_first_.size(0) : static_cast<int64_t>(ends_.size()); }
    Tensor operator[](int64_t index) const;
    int64_t heads() const { return heads_first_.size(ends_.empty() ? 1 : 0); }
    int64_t length() const { return heads_first_.size(ends_.empty() ? 2 : 1); }  // of each, or of all in a row

private:
    Tensor heads_first_;  // (batch, heads, length, depth), or (heads, length, depth) with all sequences in a row
    IntList ends_;
};

// A part of a mask or a bias that belongs to one sequence, ready to broadcast to (heads, queries, keys). Of a larger
// one the first rows and columns count: sequences in a row share it.
Tensor part_for_sequence(const Tensor& whole, int64_t index, int64_t queries, int64_t keys);

// Which keys a query may not see, by the mask of the caller and by the sparse mode; nothing if it may see all.
OptionalTensor hidden_keys(const AttentionSettings& settings, const OptionalTensor& mask, int64_t index,
                           int64_t queries, int64_t keys);

struct AttentionInput {
    Tensor query;  // (heads, queries, depth), float32 like the rest
    Tensor key;    // (key heads, keys, depth); the heads are a divisor of the query's
    Tensor value;
    OptionalTensor bias;    // added to the scores
    OptionalTensor hidden;  // bool
    OptionalTensor kept;    // bool, from dropout
    OptionalTensor sink;    // a score for each head that takes weight from all keys
};

// Throws unless the operands of one sequence fit together.
void check_attention(const AttentionInput& input);

struct AttentionResult {
    Tensor value;
    Tensor greatest_score;  // (heads, queries, 1)
    Tensor weight_sum;
};

struct AttentionGradients {
    Tensor query;
    Tensor key;
    Tensor value;
    Tensor bias;
    OptionalTensor sink;
};

AttentionResult attend(const AttentionInput& input, const AttentionSettings& settings);
AttentionGradients attend_backward(const AttentionInput& input, const AttentionSettings& settings,
                                   const Tensor& gradient, const Tensor& greatest_score, const Tensor& weight_sum);

// The operands of a whole call.
struct AttentionTensors {
    Tensor query;
    Tensor key;
    Tensor value;
    OptionalTensor bias;
    OptionalTensor drop_mask;
    OptionalTensor mask;
    OptionalTensor query_rope;  // more depth of query and key, in tensors of their own
    OptionalTensor key_rope;
    OptionalTensor sink;
};

// The results that the forward pass leaves, and that the gradient needs.
struct AttentionSaved {
    Tensor gradient;
    Tensor greatest_scores;
    Tensor weight_sums;
};

struct AttentionGradientOutputs {
    Output query;
    Output key;
    Output value;
    Output bias;
    Output query_rope = Output(nullptr);
    Output key_rope = Output(nullptr);
    Output sink = Output(nullptr);
};

// Statistics have the shape (batch, heads, queries, 8), or (queries, heads, 8) in a row: each number eight times.
void fused_attention(const AttentionTensors& tensors, const AttentionSettings& settings, Output greatest_scores,
                     Output weight_sums, Output result);
void fused_attention_backward(const AttentionTensors& tensors, const AttentionSettings& settings,
                              const AttentionSaved& saved, AttentionGradientOutputs outputs);

}  // namespace virtual_npu
