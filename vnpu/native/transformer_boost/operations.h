// The operations of ATB that have a kernel.
#pragma once

#include <cstdint>

#include "atb_interface.h"

namespace atb {

// Bytes of a dense tensor; 0 if its type is not known here.
uint64_t bytes_of(const TensorDesc& desc);

// Inputs: queries, keys, cosines and sines of each token, tokens of each sequence. Outputs: queries, keys.
Operation* make_rope(const infer::RopeParam& param);

// Inputs: keys, values, both caches, the slot of each token; those of a negative slot are left out. Outputs: the
// caches.
Operation* make_reshape_and_cache();

// Inputs: two matrices of 16 bits and the one that their product is added to, of floats. Output: that one.
Operation* make_accumulating_linear(const infer::LinearParam& param);

}  // namespace atb
