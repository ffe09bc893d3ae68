// Functions that move elements without computing: join, split, repeat, pad, flip, triangles, windows.
#include "kernel.h"

namespace virtual_npu {
namespace {

// The size of the result is the sum of the repeats. While a call is rehearsed, the repeats are not known and are taken
// as fit to the result. If there is one number of repeats for all, the result has to be a multiple of the dimension.
Tensor fitting(const Tensor& repeats, int64_t size, int64_t result_size) {
    if (!is_rehearsing()) return repeats;
    Tensor fit = at::zeros(repeats.sizes(), repeats.scalar_type());
    if (fit.numel() > 0) fit.view(-1)[0].fill_(repeats.numel() == 1 && size > 0 ? result_size / size : result_size);
    return fit;
}

// Which element of a dimension of `size` elements each element of the repeated dimension comes from.
Tensor repeated_positions(const Tensor& repeats, int64_t size) {
    return at::repeat_interleave(repeats.numel() == 1 ? repeats.reshape({1}).expand({size}) : repeats);
}

}  // namespace

// Join and split.

KERNEL(aclnnCat, (TensorList tensors, int64_t dim, Output result)) { result = at::cat(tensors, dim); }

KERNEL(aclnnStack, (TensorList tensors, int64_t dim, Output result)) { result = at::stack(tensors, dim); }

KERNEL(aclnnChunkCat, (TensorList tensors, int64_t dim, int64_t chunks, Output result)) {
    result = at::_chunk_cat(tensors, dim, chunks);
}

KERNEL(aclnnSplitWithSize, (Tensor self, IntList sizes, int64_t dim, OutputList results)) {
    results = at::split_with_sizes(self, sizes, dim);
}

// Repeat.

KERNEL(aclnnRepeat, (Tensor self, IntList repeats, Output result)) { result = self.repeat(repeats); }

KERNEL(aclnnRepeatInterleave, (Tensor self, Tensor repeats, int64_t /*output_size*/, Output result)) {
    result = at::repeat_interleave(self, fitting(repeats, self.numel(), result.tensor().numel()));
}

KERNEL(aclnnRepeatInterleaveWithDim,
       (Tensor self, Tensor repeats, int64_t dim, int64_t /*output_size*/, Output result)) {
    result = at::repeat_interleave(self, fitting(repeats, self.size(dim), result.tensor().size(dim)), dim);
}

KERNEL(aclnnRepeatInterleaveInt, (Tensor self, int64_t repeats, int64_t /*output_size*/, Output result)) {
    result = at::repeat_interleave(self, repeats);
}

KERNEL(aclnnRepeatInterleaveIntWithDim,
       (Tensor self, int64_t repeats, int64_t dim, int64_t /*output_size*/, Output result)) {
    result = at::repeat_interleave(self, repeats, dim);
}

KERNEL(aclnnRepeatInterleaveTensor, (Tensor repeats, int64_t /*output_size*/, Output result)) {
    result = at::repeat_interleave(fitting(repeats, repeats.numel(), result.tensor().numel()));
}

KERNEL(aclnnRepeatInterleaveGrad, (Tensor gradient, Tensor repeats, int64_t dim, Output result)) {
    const Tensor zero = at::zeros_like(result.tensor());
    const Tensor index = repeated_positions(fitting(repeats, zero.size(dim), gradient.size(dim)), zero.size(dim));
    result = at::index_add(zero, dim, index, gradient.to(zero.scalar_type()));
}

// Order and place.

KERNEL(aclnnFlip, (Tensor self, IntList dims, Output result)) { result = at::flip(self, dims); }

KERNEL(aclnnRoll, (Tensor self, IntList shifts, IntList dims, Output result)) { result = at::roll(self, shifts, dims); }

KERNEL(aclnnConfusionTranspose, (Tensor self, IntList order, IntList shape, bool transpose_first, Output result)) {
    result = transpose_first ? self.permute(order).reshape(shape) : self.reshape(shape).permute(order);
}

KERNEL(aclnnOneHot, (Tensor self, int64_t classes, Tensor on_value, Tensor off_value, int64_t axis, Output result)) {
    const int64_t dim = axis < 0 ? axis + self.dim() + 1 : axis;
    IntList shape(self.dim() + 1, 1);
    shape[dim] = classes;
    const Tensor hit = at::eq(positions(self).unsqueeze(dim), at::arange(classes, at::kLong).view(shape));
    result = at::where(hit, on_value, off_value);
}

// Triangles.

KERNEL(aclnnTril, (Tensor self, int64_t diagonal, Output result)) { result = at::tril(self, diagonal); }

KERNEL(aclnnTriu, (Tensor self, int64_t diagonal, Output result)) { result = at::triu(self, diagonal); }

KERNEL(aclnnInplaceTril, (Output self, int64_t diagonal)) { self = at::tril(self.tensor(), diagonal); }

KERNEL(aclnnInplaceTriu, (Output self, int64_t diagonal)) { self = at::triu(self.tensor(), diagonal); }

// Padding.

KERNEL(aclnnConstantPadNd, (Tensor self, IntList padding, Scalar value, Output result)) {
    result = at::constant_pad_nd(self, padding, value);
}

#define PADDING(NAME, COMPUTE)                                                                              \
    KERNEL(aclnn##NAME, (Tensor self, IntList padding, Output result)) { result = COMPUTE(self, padding); } \
    KERNEL(aclnn##NAME##Backward, (Tensor gradient, Tensor self, IntList padding, Output result)) {         \
        result = COMPUTE##_backward(gradient, self, padding);                                               \
    }

PADDING(ReflectionPad1d, at::reflection_pad1d)
PADDING(ReflectionPad2d, at::reflection_pad2d)
PADDING(ReflectionPad3d, at::reflection_pad3d)
PADDING(ReplicationPad1d, at::replication_pad1d)
PADDING(ReplicationPad2d, at::replication_pad2d)
PADDING(ReplicationPad3d, at::replication_pad3d)

#undef PADDING

// Windows.

KERNEL(aclnnIm2col,
       (Tensor self, IntList kernel_size, IntList dilation, IntList padding, IntList stride, Output result)) {
    result = at::im2col(self, kernel_size, dilation, padding, stride);
}

KERNEL(aclnnIm2colBackward, (Tensor self, IntList output_size, IntList kernel_size, IntList dilation, IntList padding,
                             IntList stride, Output result)) {
    result = at::col2im(self, output_size, kernel_size, dilation, padding, stride);
}

KERNEL(aclnnUnfoldGrad, (Tensor gradient, IntList sizes, int64_t dim, int64_t size, int64_t step, Output result)) {
    result = at::unfold_backward(gradient, sizes, dim, size, step);
}

}  // namespace virtual_npu
