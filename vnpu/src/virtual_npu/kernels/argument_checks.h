// The demands of the device's functions on their arguments. A kernel that converts arguments as it likes accepts too
// much. A wrong call would then give a result that no device and no CPU gives.
#pragma once

#include <initializer_list>

#include "arguments.h"

namespace virtual_npu {

void require(bool condition, const char* what);
void require_floating(const at::Tensor& tensor);
// All that are defined have the data type of the first.
void require_one_type(std::initializer_list<OptionalTensor> tensors);
void require_sizes(const at::Tensor& tensor, at::IntArrayRef sizes, const char* name);

// The parts of a tensor along a dimension whose size is a multiple of their number; libtorch's chunk makes fewer of
// others.
std::vector<at::Tensor> equal_parts(const at::Tensor& tensor, int64_t count, int64_t dim);

// Positions in a dimension, or numbers of classes: int32 or int64. The functions of libtorch want int64.
at::Tensor positions(const at::Tensor& index);
// Some functions take bytes as truth values too.
at::Tensor true_or_false(const at::Tensor& mask);
at::Tensor truth_values(const at::Tensor& mask);

}  // namespace virtual_npu
