// Basic operators of the older interface (aclop), which knows an operator by its name. torch_npu always asks for
// `npu_pad`. It asks for the others once `torch.npu.set_compile_mode(jit_compile=True)` was called or internal formats
// are allowed.
#include "kernel.h"

namespace virtual_npu {

KERNEL(Add, (Tensor self, Tensor other, Output result, Attributes /*none*/)) { result = at::add(self, other); }
KERNEL(Sub, (Tensor self, Tensor other, Output result, Attributes /*none*/)) { result = at::sub(self, other); }
KERNEL(Mul, (Tensor self, Tensor other, Output result, Attributes /*none*/)) { result = at::mul(self, other); }
KERNEL(RealDiv, (Tensor self, Tensor other, Output result, Attributes /*none*/)) { result = at::div(self, other); }
KERNEL(Relu, (Tensor self, Output result, Attributes /*none*/)) { result = at::relu(self); }
KERNEL(Fill, (Tensor /*shape*/, Tensor value, Output result, Attributes /*none*/)) {
    result = value.reshape({}).expand(result.sizes());
}

KERNEL(ReduceSum, (Tensor self, Tensor dimensions, Output result, Attributes attributes)) {
    const Tensor all = dimensions.to(at::kLong).contiguous();
    result = at::sum(self, at::IntArrayRef(all.data_ptr<int64_t>(), all.numel()), attributes.flag("keep_dims"));
}

// The inputs are laid out as they are stored; the attributes say which of them is meant transposed.
KERNEL(MatMul, (Tensor self, Tensor other, Output result, Attributes attributes)) {
    const Tensor left = attributes.flag("transpose_x1") ? self.t() : self;
    result = at::mm(left, attributes.flag("transpose_x2") ? other.t() : other);
}

KERNEL(Pad, (Tensor self, Tensor widths, Output result, Attributes /*none*/)) {
    const Tensor pairs =
        widths.to(at::kLong).reshape({-1, 2});  // before and behind each dimension, the first one first
    result.tensor().zero_();
    Tensor inside = result.tensor();
    for (int64_t dimension = 0; dimension < pairs.size(0); ++dimension) {
        inside = inside.narrow(dimension, pairs[dimension][0].item<int64_t>(), self.size(dimension));
    }
    inside.copy_(self);
}

}  // namespace virtual_npu
