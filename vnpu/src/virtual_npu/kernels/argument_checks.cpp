#include "argument_checks.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace virtual_npu {

void require(bool condition, const char* what) {
    if (!condition) throw std::invalid_argument(what);
}

void require_floating(const at::Tensor& tensor) {
    if (tensor.is_floating_point()) return;
    throw std::invalid_argument(std::string("a floating point data type is expected, not ") +
                                c10::toString(tensor.scalar_type()));
}

void require_one_type(std::initializer_list<OptionalTensor> tensors) {
    const at::Tensor& first = **tensors.begin();
    for (const OptionalTensor& tensor : tensors) {
        if (!tensor || tensor->scalar_type() == first.scalar_type()) continue;
        throw std::invalid_argument(std::string("operands of one data type are expected, not ") +
                                    c10::toString(first.scalar_type()) + " and " +
                                    c10::toString(tensor->scalar_type()));
    }
}

void require_sizes(const at::Tensor& tensor, at::IntArrayRef sizes, const char* name) {
    if (tensor.sizes() == sizes) return;
    std::ostringstream text;
    text << name << " has the shape " << tensor.sizes() << ", not " << sizes;
    throw std::invalid_argument(text.str());
}

std::vector<at::Tensor> equal_parts(const at::Tensor& tensor, int64_t count, int64_t dim) {
    if (tensor.size(dim) % count != 0) {
        throw std::invalid_argument("a dimension of size " + std::to_string(tensor.size(dim)) +
                                    " does not consist of " + std::to_string(count) + " equal parts");
    }
    return at::split(tensor, std::max<int64_t>(tensor.size(dim) / count, 1), dim);
}

at::Tensor positions(const at::Tensor& index) {
    if (index.scalar_type() != at::kInt && index.scalar_type() != at::kLong) {
        throw std::invalid_argument(std::string("positions are int32 or int64, not ") +
                                    c10::toString(index.scalar_type()));
    }
    return index.to(at::kLong);
}

at::Tensor true_or_false(const at::Tensor& mask) {
    if (mask.scalar_type() == at::kBool) return mask;
    throw std::invalid_argument(std::string("a mask is bool, not ") + c10::toString(mask.scalar_type()));
}

at::Tensor truth_values(const at::Tensor& mask) {
    if (mask.scalar_type() != at::kBool && mask.scalar_type() != at::kByte) {
        throw std::invalid_argument(std::string("a mask is bool or uint8, not ") + c10::toString(mask.scalar_type()));
    }
    return mask.to(at::kBool);
}

}  // namespace virtual_npu
