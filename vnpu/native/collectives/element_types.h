// Sizes and names of element types, and reductions over the same elements of several ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interface.h"

namespace virtual_npu {

// 0 for a number that is no type.
size_t element_bytes(int type);
// Integers of up to 64 bits.
bool is_whole_number(int type);
const char* type_name(int type);
const char* reduction_name(int reduction);

// False for types without arithmetic (128-bit integers, 8-bit floating point numbers), which are only moved, and for
// numbers that are no type or no reduction.
bool can_reduce(int type, int reduction);

// target[i] = sources[0][i] op sources[1][i] op ...; always in the order of the ranks, so that every rank that computes
// an element gets the same bits. Half types are added up in float and rounded once. target may be one of the sources.
void reduce(int type, int reduction, const std::byte* const* sources, uint32_t source_count, size_t count,
            std::byte* target);

}  // namespace virtual_npu
