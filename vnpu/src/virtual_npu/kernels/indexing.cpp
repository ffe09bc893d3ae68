// Reading and writing at positions that a tensor holds: index, gather, scatter, masks, nonzero.
#include <stdexcept>

#include "kernel.h"

namespace virtual_npu {
namespace {

using OptionalTensors = c10::List<std::optional<Tensor>>;

OptionalTensors index_list(const OptionalTensorList& indices) {
    OptionalTensors list;
    for (const auto& index : indices) list.push_back(index);
    return list;
}

// The caller marks "the whole dimension" by a tensor of shape (0), which an index with no elements looks like too. An
// index there must be, so if all seem absent it is the latter.
bool selects_nothing(const OptionalTensorList& indices) {
    for (const auto& index : indices) {
        if (index.has_value()) return index->numel() == 0;
    }
    return true;
}

// The codes of the reduction argument of the scatter functions.
enum class ScatterReduction : int64_t { kNone = 0, kSum, kProduct, kMaximum, kMinimum, kMean };

std::string_view scatter_reduction_name(int64_t code) {
    switch (static_cast<ScatterReduction>(code)) {
        case ScatterReduction::kSum:
            return "sum";
        case ScatterReduction::kProduct:
            return "prod";
        case ScatterReduction::kMaximum:
            return "amax";
        case ScatterReduction::kMinimum:
            return "amin";
        case ScatterReduction::kMean:
            return "mean";
        default:
            throw std::invalid_argument("reduction " + std::to_string(code) + " of scatter is not known here");
    }
}

Tensor scattered(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, int64_t reduction,
                 bool include_self = true) {
    if (reduction == static_cast<int64_t>(ScatterReduction::kNone)) {
        return at::scatter(self, dim, positions(index), source);
    }
    return at::scatter_reduce(self, dim, positions(index), source, scatter_reduction_name(reduction), include_self);
}

Tensor scattered_value(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value, int64_t reduction) {
    if (reduction == static_cast<int64_t>(ScatterReduction::kNone)) {
        return at::scatter(self, dim, positions(index), value);
    }
    return scattered(self, dim, index, at::full_like(index, value, self.options()), reduction);
}

Tensor tensor_of_positions(const IntList& index) { return at::tensor(index, at::kLong); }

}  // namespace

// Advanced indexing.

KERNEL(aclnnIndex, (Tensor self, OptionalTensorList indices, Output result)) {
    if (result.tensor().numel() == 0) return;
    result = at::index(self, index_list(indices));
}

KERNEL(aclnnIndexPutImpl, (Output self, OptionalTensorList indices, Tensor values, bool accumulate, bool /*unsafe*/)) {
    if (selects_nothing(indices)) return;
    Tensor target = self.tensor();
    at::index_put_(target, index_list(indices), values, accumulate);
}

// One dimension, one list of positions.

KERNEL(aclnnIndexSelect, (Tensor self, int64_t dim, Tensor index, Output result)) {
    result = at::index_select(self, dim, index);
}

KERNEL(aclnnIndexAdd, (Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, Output result)) {
    result = at::index_add(self, dim, index, source, alpha);
}

KERNEL(aclnnIndexAddV2,
       (Tensor self, int64_t dim, Tensor index, Tensor source, Scalar alpha, int64_t /*mode*/, Output result)) {
    result = at::index_add(self, dim, index, source, alpha);
}

KERNEL(aclnnIndexCopy, (Tensor self, int64_t dim, Tensor index, Tensor source, Output result)) {
    result = at::index_copy(self, dim, positions(index), source);
}

KERNEL(aclnnInplaceIndexCopy, (Output self, int64_t dim, Tensor index, Tensor source)) {
    self.tensor().index_copy_(dim, positions(index), source);
}

KERNEL(aclnnIndexFill, (Tensor self, int64_t dim, Tensor index, Scalar value, Output result)) {
    result = at::index_fill(self, dim, positions(index), value);
}

KERNEL(aclnnInplaceIndexFill, (Output self, int64_t dim, Tensor index, Scalar value)) {
    self.tensor().index_fill_(dim, positions(index), value);
}

// Despite the name, the positions are an array on the host.
KERNEL(aclnnIndexFillTensor, (Tensor self, int64_t dim, IntList index, Scalar value, Output result)) {
    result = at::index_fill(self, dim, tensor_of_positions(index), value);
}

KERNEL(aclnnInplaceIndexFillTensor, (Output self, int64_t dim, IntList index, Scalar value)) {
    self.tensor().index_fill_(dim, tensor_of_positions(index), value);
}

// One position for each element.

KERNEL(aclnnGather, (Tensor self, int64_t dim, Tensor index, Output result)) {
    result = at::gather(self, dim, positions(index));
}

KERNEL(aclnnScatter, (Tensor self, int64_t dim, Tensor index, Tensor source, int64_t reduction, Output result)) {
    result = scattered(self, dim, index, source, reduction);
}

KERNEL(aclnnInplaceScatter, (Output self, int64_t dim, Tensor index, Tensor source, int64_t reduction)) {
    self = scattered(self.tensor(), dim, index, source, reduction);
}

KERNEL(aclnnScatterValue, (Tensor self, int64_t dim, Tensor index, Scalar value, int64_t reduction, Output result)) {
    result = scattered_value(self, dim, index, value, reduction);
}

KERNEL(aclnnInplaceScatterValue, (Output self, int64_t dim, Tensor index, Scalar value, int64_t reduction)) {
    self = scattered_value(self.tensor(), dim, index, value, reduction);
}

KERNEL(aclnnScatterAdd, (Tensor self, int64_t dim, Tensor index, Tensor source, Output result)) {
    result = at::scatter_add(self, dim, positions(index), source);
}

KERNEL(aclnnScatterReduce,
       (Tensor self, int64_t dim, Tensor index, Tensor source, int64_t reduction, bool include_self, Output result)) {
    result = scattered(self, dim, index, source, reduction, include_self);
}

KERNEL(aclnnInplaceScatterReduce,
       (Output self, int64_t dim, Tensor index, Tensor source, int64_t reduction, bool include_self)) {
    self = scattered(self.tensor(), dim, index, source, reduction, include_self);
}

KERNEL(aclnnTake, (Tensor self, Tensor index, Output result)) { result = at::take(self, positions(index)); }

KERNEL(aclnnInplacePut, (Output self, Tensor index, Tensor source, bool accumulate)) {
    require(source.numel() == index.numel(), "there are not as many values as positions");
    require(index.numel() == 0 || self.tensor().numel() > 0, "there are positions, but no elements");
    self.tensor().put_(positions(index), source, accumulate);
}

// Masks.

KERNEL(aclnnMaskedSelect, (Tensor self, Tensor mask, Output result)) {
    result.assign_resized(at::masked_select(self, true_or_false(mask)));
}

KERNEL(aclnnInplaceMaskedFillScalar, (Output self, Tensor mask, Scalar value)) {
    self.tensor().masked_fill_(true_or_false(mask), value);
}

KERNEL(aclnnInplaceMaskedFillTensor, (Output self, Tensor mask, Tensor value)) {
    self.tensor().masked_fill_(true_or_false(mask), value.item());
}

KERNEL(aclnnInplaceMaskedScatter, (Output self, Tensor mask, Tensor source)) {
    self.tensor().masked_scatter_(true_or_false(mask), source);
}

KERNEL(aclnnNonzero, (Tensor self, Output result)) { result.assign_resized(at::nonzero(self)); }

// One row for each dimension, where the first version has one for each element.
KERNEL(aclnnNonzeroV2, (Tensor self, Output result)) { result.assign_resized(at::nonzero(self).t()); }

// Functions of torch_npu's own.

KERNEL(aclnnGatherV3, (Tensor self, int64_t dim, Tensor index, int64_t batch_dims, int64_t /*mode*/, Output result)) {
    if (batch_dims != 0) throw std::invalid_argument("a gather with batch dimensions is not written");
    result.assign_reshaped(at::index_select(self, dim, index.flatten()));
}

KERNEL(aclnnScatterNdUpdate, (Output self, Tensor indices, Tensor updates)) {
    Tensor target = self.tensor();
    require(indices.dim() > 0 && indices.size(-1) <= target.dim(), "the positions have too many dimensions");
    std::vector<int64_t> sizes = indices.sizes().slice(0, indices.dim() - 1).vec();
    for (int64_t dim = indices.size(-1); dim < target.dim(); ++dim) sizes.push_back(target.size(dim));
    require_sizes(updates, sizes, "the update");
    OptionalTensors list;
    for (const auto& index : indices.unbind(-1)) list.push_back(positions(index));
    at::index_put_(target, list, updates);
}

// Writes updates[b] into self[b] from position indices[b] of the dimension `axis` on.
KERNEL(aclnnInplaceScatterUpdate, (Output self, Tensor indices, Tensor updates, int64_t axis)) {
    Tensor target = self.tensor();
    const int64_t dim = axis < 0 ? axis + target.dim() : axis;
    const bool with_batch = indices.dim() == 2;  // rows of (batch, position) instead of positions
    require_one_type({target, updates});
    require(with_batch ? indices.size(1) == 2 : indices.dim() == 1, "positions have one dimension, or rows of two");
    require(updates.dim() == target.dim() && updates.size(0) == indices.size(0), "each position needs an update");
    for (int64_t each = 1; each < target.dim(); ++each) {
        require(each == dim ? updates.size(each) <= target.size(each) : updates.size(each) == target.size(each),
                "an update does not have the shape of what it replaces");
    }
    const Tensor rows = positions(indices);
    for (int64_t row = 0; row < indices.size(0); ++row) {
        const int64_t batch = with_batch ? rows[row][0].item<int64_t>() : row;
        const int64_t position = (with_batch ? rows[row][1] : rows[row]).item<int64_t>();
        target[batch].narrow(dim - 1, position, updates.size(dim)).copy_(updates[row]);
    }
}

}  // namespace virtual_npu
