// Embedding tables: rows by index, sums of rows (bags), their gradients, and the bound on the norm of rows.
#include "kernel.h"

namespace virtual_npu {

KERNEL(aclnnEmbedding, (Tensor weight, Tensor indices, Output result)) { result = at::embedding(weight, indices); }
KERNEL(aclnnEmbeddingDenseBackward,
       (Tensor gradient, Tensor indices, int64_t rows, int64_t padding, bool scale_by_frequency, Output result)) {
    result = at::embedding_dense_backward(gradient, indices.to(at::kLong), rows, padding, scale_by_frequency);
}
KERNEL(aclnnEmbeddingRenorm, (Output self, Tensor indices, double max_norm, double norm_type)) {
    Tensor table = self.tensor();
    at::embedding_renorm_(table, indices.to(at::kLong), max_norm, norm_type);
}
// The tables for the gradient have sizes of the caller's choice; where the CPU leaves one empty, so does the caller.
KERNEL(aclnnEmbeddingBag, (Tensor weight, Tensor indices, Tensor offsets, bool scale_by_frequency, int64_t mode,
                           bool sparse, OptionalTensor sample_weights, bool include_last_offset, int64_t padding,
                           Output result, Output bag_of_index, Output bag_size, Output max_indices)) {
    const auto bags = at::_embedding_bag(weight, indices, offsets, scale_by_frequency, mode, sparse, sample_weights,
                                         include_last_offset, padding);
    result = std::get<0>(bags);
    const auto keep = [](Output& target, const Tensor& value) {
        if (target && target.tensor().numel() == value.numel()) target = value;
    };
    keep(bag_of_index, std::get<1>(bags));
    keep(bag_size, std::get<2>(bags));
    keep(max_indices, std::get<3>(bags));
}

}  // namespace virtual_npu
