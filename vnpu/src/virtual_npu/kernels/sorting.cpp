// Sorting, and what rests on an order: top k, unique values, searches in sorted sequences.
#include "kernel.h"

namespace virtual_npu {
namespace {

void top_k(const Tensor& self, int64_t k, int64_t dim, bool largest, bool sorted, Output& values, Output& indices) {
    const auto [chosen, positions] = at::topk(self, k, dim, largest, sorted);
    values = chosen;
    indices = positions;
}

// The common part of the unique functions. The number of values is only known now. The other two outputs are meaningful
// only if asked for.
void assign_unique(const std::tuple<Tensor, Tensor, Tensor>& results, bool with_inverse, bool with_counts,
                   Output& values, Output& inverse, Output& counts) {
    values.assign_resized(std::get<0>(results));
    if (with_inverse) inverse = std::get<1>(results);
    if (with_counts) counts.assign_resized(std::get<2>(results));
}

}  // namespace

KERNEL(aclnnSort, (Tensor self, bool stable, int64_t dim, bool descending, Output values, Output indices)) {
    const auto [sorted, positions] = at::sort(self, stable, dim, descending);
    values = sorted;
    indices = positions;
}

KERNEL(aclnnTopk, (Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, Output values, Output indices)) {
    top_k(self, k, dim, largest, sorted, values, indices);
}

KERNEL(aclnnTopkV2, (Tensor self, int64_t k, int64_t dim, bool largest, bool sorted, int64_t /*sort_policy*/,
                     Output values, Output indices)) {
    top_k(self, k, dim, largest, sorted, values, indices);
}

KERNEL(aclnnUnique, (Tensor self, bool sorted, bool with_inverse, Output values, Output inverse)) {
    const auto [unique, positions] = at::_unique(self, sorted, with_inverse);
    values.assign_resized(unique);
    if (with_inverse) inverse = positions;
}

KERNEL(aclnnUnique2,
       (Tensor self, bool sorted, bool with_inverse, bool with_counts, Output values, Output inverse, Output counts)) {
    assign_unique(at::_unique2(self, sorted, with_inverse, with_counts), with_inverse, with_counts, values, inverse,
                  counts);
}

KERNEL(aclnnUniqueDim,
       (Tensor self, bool sorted, bool with_inverse, int64_t dim, Output values, Output inverse, Output counts)) {
    assign_unique(at::unique_dim(self, dim, sorted, with_inverse, /*return_counts=*/true), with_inverse, true, values,
                  inverse, counts);
}

// A dimension of 1000 stands for none.
KERNEL(aclnnUniqueConsecutive,
       (Tensor self, bool with_inverse, bool with_counts, int64_t dim, Output values, Output inverse, Output counts)) {
    const auto dimension = dim == 1000 ? std::optional<int64_t>() : std::optional<int64_t>(dim);
    assign_unique(at::unique_consecutive(self, with_inverse, with_counts, dimension), with_inverse, with_counts, values,
                  inverse, counts);
}

KERNEL(aclnnSearchSorted,
       (Tensor sequence, Tensor self, bool out_int32, bool right, OptionalTensor sorter, Output result)) {
    result = at::searchsorted(sequence, self, out_int32, right, /*side=*/std::nullopt, sorter);
}

KERNEL(aclnnSearchSorteds,
       (Tensor sequence, Scalar self, bool out_int32, bool right, OptionalTensor sorter, Output result)) {
    result = at::searchsorted(sequence, self, out_int32, right, /*side=*/std::nullopt, sorter);
}

KERNEL(aclnnBucketize, (Tensor self, Tensor boundaries, bool out_int32, bool right, Output result)) {
    result = at::bucketize(self, boundaries, out_int32, right);
}

}  // namespace virtual_npu
