// Reading a tensor where torch keeps it, without asking Python for attributes and without torch's headers.
//
// Where torch keeps what is found out once, on tensors that are made for it, and is believed only if every one of them
// reads as Python says. A class of tensors in C++ is read so once a tensor of it has read as Python says; everything
// else is left to Python. Learning needs the GIL, and reading objects of Python; reading where torch keeps a tensor
// does not.
//
// Torch's C functions for tensors (aoti_torch_get_*) are not called here. aoti_torch_get_data_ptr gives a tensor its own
// copy of memory that it shares until one of both writes, which changes the program. It throws for tensors without a
// storage. Only torch 2.10 and later have a function that does not copy, and none tells the dispatch keys. Ten calls
// take 31 ns for what is read here in 7.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

namespace msmemscope {

// The most dimensions of a tensor that is read here.
inline constexpr std::uint32_t kMostDimensions = 64;

struct TensorMemory {
    std::uint64_t storage_address;  // where its storage begins; 0: it has no memory
    std::int64_t offset;            // of its first element in the storage, in elements
    std::int64_t elements;
    std::uint32_t item_bytes;
    std::uint16_t type_code;    // torch's number of the dtype
    std::uint16_t device_code;  // torch's numbers of the device's kind and of the device
    std::uint32_t dimensions;
    const std::int64_t* sizes;  // valid while the tensor is
    const std::int64_t* strides;
};

// False if the tensor must be read through Python.
bool read_tensor(PyObject* tensor, TensorMemory& memory);

// The same of a tensor where torch keeps it: of what an object of Python stands for. Needs no GIL.
bool read_tensor_at(const void* tensor, TensorMemory& memory);

// Whether its class in Python has a dispatch of its own. Only of a tensor that was read.
bool has_own_dispatch(const void* tensor);

// Where torch keeps the tensor of an object of Python; null if that is not known.
const void* place_of_tensor(PyObject* tensor);

// What Python says of a tensor.
struct ToldTensor {
    std::uint64_t storage_address;
    std::int64_t offset;
    std::int64_t elements;
    std::uint32_t item_bytes;
    std::vector<std::int64_t> sizes;
};

// Whether it is worth it to ask Python all of it about this tensor, because that may spare it for the next ones.
bool may_learn_from(PyObject* tensor);
void learn_from(PyObject* tensor, const ToldTensor& told);

// METH_VARARGS: learn_tensor_layout(classes, samples, own_dispatch) -> bool
// classes: tuple of the classes whose tensors may be read here; subclasses have ways of their own.
// samples: tuple of (tensor, address of the tensor, address of its storage, where the storage's bytes begin, offset,
// elements, bytes of an element, sizes, strides, number of the dtype, number of the device's kind, number of the
// device, its dispatch keys); numbers of dtypes and kinds may be any, if they are equal where those are; no sample is
// of another kind of tensor. own_dispatch: the bit of dispatch keys that tensors have whose class dispatches by itself.
PyObject* learn_tensor_layout(PyObject* self, PyObject* arguments);

// METH_NOARGS: tensors are read through Python from now on.
PyObject* forget_tensor_layout(PyObject* self, PyObject* none);

// METH_O: tensor_memory(tensor) -> (where the storage begins, offset, elements, bytes of an element, sizes, strides),
// or None for one that must be read through Python. What is read of tensors, for those who check it.
PyObject* tensor_memory(PyObject* self, PyObject* tensor);

}  // namespace msmemscope
