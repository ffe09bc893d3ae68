// The attributes of accesses: dtype and shape of a tensor, as ids of the log.
#pragma once

#include <Python.h>

#include <cstdint>

#include "tensor_layout.h"

namespace msmemscope {

// Of a tensor that was read where torch keeps it. False if the text of its dtype is not known. An id of 0: none could
// be made. Needs no GIL.
bool attribute_of(const TensorMemory& memory, std::uint32_t& id);

// Of any tensor, by what Python says of it. 0 with an error set on failure.
std::uint32_t attribute_id(PyObject* dtype, PyObject* shape);

// The text of a dtype, by torch's own number of it. An error may be set afterwards.
void learn_type_text(std::uint16_t type_code, PyObject* dtype);
// The same of tensors. METH_O: learn_type_texts(tensors) -> None
PyObject* learn_type_texts(PyObject* self, PyObject* tensors);

}  // namespace msmemscope
