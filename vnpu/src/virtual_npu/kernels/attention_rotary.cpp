// Kernels around attention:
//
// - rotary positions of query and key;
// - the split of their common projection;
// - the sum of attention to two sets of keys (ring attention).
#include <cmath>

#include "kernel.h"

namespace virtual_npu {
namespace {

// The ways in which the elements of a vector form pairs that rotate. A pair is one element from each half, or
// neighbours, or one from each half within both halves.
enum RotaryMode : int64_t { kHalves = 0, kNeighbours = 1, kQuarters = 2 };

Tensor rotate_halves(const Tensor& self) {
    const auto halves = equal_parts(self, 2, -1);
    return at::cat({-halves[1], halves[0]}, -1);
}

// The other element of each pair, negative for the first one: a rotation by 90 degrees.
Tensor rotate_pairs(const Tensor& self, int64_t mode) {
    switch (mode) {
        case kHalves:
            return rotate_halves(self);
        case kNeighbours: {
            const Tensor pairs = self.unflatten(-1, {-1, 2});
            return at::stack({-pairs.select(-1, 1), pairs.select(-1, 0)}, -1).flatten(-2);
        }
        case kQuarters: {
            const auto halves = equal_parts(self, 2, -1);
            return at::cat({rotate_halves(halves[0]), rotate_halves(halves[1])}, -1);
        }
        default:
            throw std::invalid_argument("rotary mode " + std::to_string(mode) + " is not emulated");
    }
}

int64_t rotary_mode_of(Text name) {
    if (name == "half") return kHalves;
    if (name == "interleave") return kNeighbours;
    if (name == "quarter") return kQuarters;
    throw std::invalid_argument("rotary mode " + std::string(name) + " is not emulated");
}

Tensor rotary_embedding(const Tensor& self, const Tensor& cosine, const Tensor& sine, int64_t mode) {
    return self * cosine + rotate_pairs(self, mode) * sine;
}

void rotary_embedding_backward(const Tensor& gradient, const Tensor& cosine, const Tensor& sine,
                               const OptionalTensor& self, int64_t mode, Output self_gradient, Output cosine_gradient,
                               Output sine_gradient) {
    // The transpose of a rotation by 90 degrees is its negative.
    self_gradient = gradient * cosine - rotate_pairs(gradient * sine, mode);
    if (!self) return;
    if (cosine_gradient) cosine_gradient = (gradient * *self).sum_to_size(cosine.sizes());
    if (sine_gradient) sine_gradient = (gradient * rotate_pairs(*self, mode)).sum_to_size(sine.sizes());
}

// Dimensions in front of the table's: (batch, length, 1, depth) where query and key are (batch, length, heads, depth).
void rotate_query_and_key(Output query, Output key, const Tensor& cosine, const Tensor& sine, int64_t mode) {
    for (Output* side : {&query, &key}) *side = rotary_embedding(side->tensor(), cosine, sine, mode);
}

// A number for each query and head, eight times in the last dimension, in the layout of the attention's result.
Tensor spread_statistic(const Tensor& statistic, const Tensor& attended, Text layout) {
    const Tensor once = statistic.narrow(-1, 0, 1);
    if (layout == "TND") return once;
    if (layout != "SBH") throw std::invalid_argument("ring attention in this layout is not emulated");
    require(attended.dim() == 3 && statistic.dim() == 4 && statistic.size(1) > 0,
            "results or statistics do not have the dimensions of the layout");
    const int64_t depth = attended.size(2) / statistic.size(1);
    require(depth * statistic.size(1) == attended.size(2), "the width of the results is no multiple of the heads");
    return once.permute({2, 0, 1, 3}).expand({-1, -1, -1, depth}).flatten(2);
}

}  // namespace

KERNEL(aclnnRotaryPositionEmbedding, (Tensor self, Tensor cosine, Tensor sine, int64_t mode, Output result)) {
    result = rotary_embedding(self, cosine, sine, mode);
}
KERNEL(aclnnRotaryPositionEmbeddingV2,
       (Tensor self, Tensor cosine, Tensor sine, int64_t mode, OptionalTensor rotation, Output result)) {
    result = rotation ? self * cosine + at::matmul(self, *rotation) * sine : rotary_embedding(self, cosine, sine, mode);
}
KERNEL(aclnnRotaryPositionEmbeddingGrad,
       (Tensor gradient, Tensor cosine, Tensor sine, OptionalTensor self, int64_t mode, Output self_gradient,
        Output cosine_gradient, Output sine_gradient)) {
    rotary_embedding_backward(gradient, cosine, sine, self, mode, self_gradient, cosine_gradient, sine_gradient);
}
KERNEL(aclnnApplyRotaryPosEmb, (Output query, Output key, Tensor cosine, Tensor sine, int64_t /*layout*/)) {
    rotate_query_and_key(query, key, cosine, sine, kHalves);
}
KERNEL(aclnnApplyRotaryPosEmbV2,
       (Output query, Output key, Tensor cosine, Tensor sine, int64_t /*layout*/, Text mode)) {
    rotate_query_and_key(query, key, cosine, sine, rotary_mode_of(mode));
}
// Takes neighbours, leaves halves.
KERNEL(aclnnInterleaveRope, (Tensor self, Tensor cosine, Tensor sine, Output result)) {
    const Tensor halves = self.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2);
    result = rotary_embedding(halves, cosine, sine, kHalves);
}

// (batch, length, 3 * width) into query (scaled), key and value of shape (batch, heads, length, depth).
KERNEL(aclnnTransformBiasRescaleQkv,
       (Tensor projection, Tensor bias, int64_t heads, Output query, Output key, Output value)) {
    const auto parts = equal_parts(projection + bias, 3, -1);
    const auto split = [heads](const Tensor& part) { return part.unflatten(-1, {heads, -1}).transpose(1, 2); };
    const Tensor heads_of_query = split(parts[0]);
    query = heads_of_query / std::sqrt(static_cast<double>(heads_of_query.size(-1)));
    key = split(parts[1]);
    value = split(parts[2]);
}

KERNEL(aclnnRingAttentionUpdateV2, (Tensor attended, Tensor greatest, Tensor sum, Tensor other, Tensor other_greatest,
                                    Tensor other_sum, OptionalTensor /*query_ends*/, Text layout,
                                    Text /*softmax_layout*/, Output result, Output new_greatest, Output new_sum)) {
    require_sizes(other, attended.sizes(), "the second result");
    for (const Tensor& statistic : {sum, other_greatest, other_sum}) {
        require_sizes(statistic, greatest.sizes(), "a statistic");
    }
    const Tensor common = at::maximum(greatest, other_greatest);
    const Tensor share = sum * at::exp(greatest - common);
    const Tensor other_share = other_sum * at::exp(other_greatest - common);
    const Tensor total = share + other_share;
    new_greatest = common;
    new_sum = total;
    result = attended * spread_statistic(share / total, attended, layout) +
             other * spread_statistic(other_share / total, attended, layout);
}

}  // namespace virtual_npu
