// What is computed although nothing is computed (compute=none): the bookkeeping of programs, which decides what they do
// next. Sizes of pickled objects are compared, added up and used to allocate; what they say must be right.
#pragma once

#include "operator_abi.h"

namespace virtual_npu {

// Phase one of a function that does its work on small tensors; null for the others.
void (*find_small_operator(const char* function))();

bool is_tensor(const aclTensor* tensor);

}  // namespace virtual_npu
