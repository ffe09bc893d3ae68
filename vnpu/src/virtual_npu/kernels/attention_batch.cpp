// Attention on a batch, forward and backward, with dropout: see attention_core.h.
#include "attention_core.h"

namespace virtual_npu {
namespace {

// `count` elements of a dropout mask of bits, from the element `begin` on; the lowest bit of a byte comes first.
Tensor kept_elements(const Tensor& bits, int64_t begin, at::IntArrayRef shape) {
    require_data(bits);
    const Tensor kept = at::empty(shape, at::kBool);
    if (begin + kept.numel() > static_cast<int64_t>(bits.nbytes()) * 8) {
        throw std::invalid_argument("the dropout mask is too small");
    }
    bool* keep = kept.data_ptr<bool>();
    const auto* bytes = static_cast<const uint8_t*>(bits.const_data_ptr());
    for (int64_t index = 0; index < kept.numel(); ++index) {
        const int64_t bit = begin + index;
        keep[index] = (bytes[bit / 8] >> (bit % 8)) & 1;
    }
    return kept;
}

// The operands of a whole call, and the input of attention for each of its sequences in turn.
class AttentionCall {
public:
    AttentionCall(const AttentionTensors& tensors, const AttentionSettings& settings)
        : tensors_(tensors),
          settings_(settings),
          query_(tensors.query, settings.layout, settings.heads, settings.query_ends),
          key_(tensors.key, settings.layout, key_heads(), settings.key_ends),
          value_(tensors.value, settings.layout, key_heads(), settings.key_ends) {
        require_floating(tensors.query);
        require_one_type(
            {tensors.query, tensors.key, tensors.value, present(tensors.bias) ? tensors.bias : std::nullopt});
        require(key_.count() == query_.count() && value_.count() == query_.count(),
                "query, key and value have different numbers of sequences");
        const bool in_a_row = settings.layout == "TND";
        for (const OptionalTensor& whole : {tensors.bias, tensors.mask}) {
            // The mask of the compressed modes is a triangle of a fixed size.
            if (in_a_row || settings.sparse_mode > 1 || !present(whole)) continue;
            const auto fits = [](int64_t size, int64_t length) { return size == length || size == 1; };
            require(whole->dim() >= 2 && fits(whole->size(-2), query_.length()) && fits(whole->size(-1), key_.length()),
                    "a bias or a mask does not have the lengths of query and key");
            require(whole->dim() < 3 || fits(whole->size(0), query_.count()),
                    "a bias or a mask does not have the number of sequences");
        }
        if (settings.bias_kind != 0 && settings.bias_kind != 1) {
            throw std::invalid_argument("attention that makes its bias itself (pse_type 2, 3) is not emulated");
        }
        if (settings.keep_probability < 1 && !present(tensors.drop_mask)) {
            throw std::invalid_argument("attention with dropout, but without a mask, is not emulated");
        }
    }

    int64_t count() const { return query_.count(); }
    int64_t key_heads() const {
        if (settings_.layout != "BSH" && settings_.layout != "SBH") return 0;  // a dimension of its own
        require(tensors_.query.dim() == 3 && tensors_.key.dim() == 3 && tensors_.query.size(2) > 0,
                "query or key does not have the dimensions of the layout");
        return tensors_.key.size(2) * settings_.heads / tensors_.query.size(2);
    }
    Sequences like_query(const Tensor& tensor) const {
        return Sequences(tensor, settings_.layout, settings_.heads, settings_.query_ends);
    }
    Sequences like_key(const Tensor& tensor) const {
        return Sequences(tensor, settings_.layout, key_heads(), settings_.key_ends);
    }
    // Statistics have a layout of their own; the last dimension repeats each number eight times.
    Sequences statistics(const Tensor& tensor) const {
        const bool in_a_row = settings_.layout == "TND";
        return Sequences(tensor, in_a_row ? "TND" : "BNSD", 0, settings_.query_ends);
    }

    // To be called for each sequence in turn.
    AttentionInput next() {
        const int64_t index = next_++;
        AttentionInput input;
        input.query = with_rope(query_[index], tensors_.query_rope, index, true);
        input.key = with_rope(key_[index], tensors_.key_rope, index, false);
        input.value = value_[index].to(at::kFloat);
        const int64_t queries = input.query.size(1);
        const int64_t keys = input.key.size(1);
        if (present(tensors_.bias)) {
            input.bias = part_for_sequence(*tensors_.bias, index, queries, keys).to(at::kFloat);
        }
        input.hidden =
            hidden_keys(settings_, present(tensors_.mask) ? tensors_.mask : std::nullopt, index, queries, keys);
        if (settings_.keep_probability < 1) {
            const std::vector<int64_t> shape{input.query.size(0), queries, keys};
            input.kept = kept_elements(*tensors_.drop_mask, mask_bits_used_, shape);
            mask_bits_used_ += input.kept->numel();
        }
        if (present(tensors_.sink)) input.sink = tensors_.sink->to(at::kFloat);
        check_attention(input);
        return input;
    }

private:
    Tensor with_rope(const Tensor& sequence, const OptionalTensor& rope, int64_t index, bool is_query) const {
        if (!present(rope)) return sequence.to(at::kFloat);
        const Tensor more = (is_query ? like_query(*rope) : like_key(*rope))[index];
        return at::cat({sequence, more}, -1).to(at::kFloat);
    }

    const AttentionTensors& tensors_;
    const AttentionSettings& settings_;
    Sequences query_;
    Sequences key_;
    Sequences value_;
    int64_t next_ = 0;
    int64_t mask_bits_used_ = 0;
};

// The gradient of depth that came in two tensors, into two tensors.
void copy_with_rope(const Sequences& target, const std::optional<Sequences>& rope, int64_t index,
                    const Tensor& gradient) {
    const Tensor first = target[index];
    first.copy_(gradient.narrow(-1, 0, first.size(-1)));
    if (rope) (*rope)[index].copy_(gradient.narrow(-1, first.size(-1), gradient.size(-1) - first.size(-1)));
}

}  // namespace

void fused_attention(const AttentionTensors& tensors, const AttentionSettings& settings, Output greatest_scores,
                     Output weight_sums, Output result) {
    AttentionCall call(tensors, settings);
    const Sequences results = call.like_query(result.tensor());
    const Sequences all_greatest = call.statistics(greatest_scores.tensor());
    const Sequences all_sums = call.statistics(weight_sums.tensor());
    for (int64_t index = 0; index < call.count(); ++index) {
        const AttentionResult attended = attend(call.next(), settings);
        results[index].copy_(attended.value);
        all_greatest[index].copy_(attended.greatest_score);
        all_sums[index].copy_(attended.weight_sum);
    }
}

void fused_attention_backward(const AttentionTensors& tensors, const AttentionSettings& settings,
                              const AttentionSaved& saved, AttentionGradientOutputs outputs) {
    AttentionCall call(tensors, settings);
    const Sequences gradients = call.like_query(saved.gradient);
    const Sequences all_greatest = call.statistics(saved.greatest_scores);
    const Sequences all_sums = call.statistics(saved.weight_sums);
    const Sequences query = call.like_query(outputs.query.tensor());
    const Sequences key = call.like_key(outputs.key.tensor());
    const Sequences value = call.like_key(outputs.value.tensor());
    std::optional<Sequences> query_rope;
    std::optional<Sequences> key_rope;
    if (present(tensors.query_rope) && outputs.query_rope) query_rope = call.like_query(outputs.query_rope.tensor());
    if (present(tensors.key_rope) && outputs.key_rope) key_rope = call.like_key(outputs.key_rope.tensor());
    Tensor bias_sum;
    Tensor sink_sum;
    if (present(tensors.bias)) bias_sum = at::zeros(tensors.bias->sizes(), at::kFloat);
    if (present(tensors.sink)) sink_sum = at::zeros(tensors.sink->sizes(), at::kFloat);
    for (int64_t index = 0; index < call.count(); ++index) {
        const AttentionInput input = call.next();
        const AttentionGradients found =
            attend_backward(input, settings, gradients[index].to(at::kFloat), all_greatest[index].narrow(-1, 0, 1),
                            all_sums[index].narrow(-1, 0, 1));
        copy_with_rope(query, query_rope, index, found.query);
        copy_with_rope(key, key_rope, index, found.key);
        value[index].copy_(found.value);
        if (bias_sum.defined()) {
            Tensor part = part_for_sequence(bias_sum, index, input.query.size(1), input.key.size(1));
            part.add_(found.bias.sum_to_size(part.sizes()));
        }
        if (sink_sum.defined()) sink_sum.add_(*found.sink);
    }
    if (bias_sum.defined() && outputs.bias && outputs.bias.tensor().numel() > 0) outputs.bias = bias_sum;
    if (sink_sum.defined() && outputs.sink) outputs.sink = sink_sum;
}

}  // namespace virtual_npu
