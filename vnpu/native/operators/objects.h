// What the library of operators knows about the objects that it makes.
#pragma once

#include <cstddef>

namespace virtual_npu {

// Bytes of one value, 0 for a data type that no scalar has.
size_t value_bytes(int data_type);

// An object has another owner, and has lost one. Null is no object.
void share_object(const void* object);
void release_object(const void* object);

// Integers of up to 64 bits, and truth values.
bool is_whole_number(int data_type);

}  // namespace virtual_npu
