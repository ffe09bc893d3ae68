// Reading a tensor where torch keeps it, without asking Python for attributes and without torch's headers.
//
// The places of a tensor's fields are found out once, on tensors that are made for it. They are believed only if every
// one of these tensors reads as Python says. A C++ class of tensors is read this way once a tensor of it has read as
// Python says. All others are left to Python. Learning needs the GIL, and so does reading Python objects. Reading where
// torch keeps a tensor does not.
//
// Torch's C functions for tensors (aoti_torch_get_*) are not called here, for three reasons:
// - aoti_torch_get_data_ptr changes the program. If a tensor shares memory until one of both writes, it gives the
//   tensor its own copy. It also throws for tensors without a storage.
// - Only torch 2.10 and later have a function that does not copy, and none tells the dispatch keys.
// - Ten calls take 31 ns for what is read here in 7.
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

// The same for the address where torch keeps a tensor, without a Python object. Needs no GIL.
bool read_tensor_at(const void* tensor, TensorMemory& memory);

// Whether its class in Python has a dispatch of its own. Only of a tensor that was read.
bool has_own_dispatch(const void* tensor);

// Where torch keeps the tensor of an object of Python; null if that is not known.
const void* place_of_tensor(PyObject* tensor);

// Python's answers about a tensor.
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
// - classes: tuple of the classes whose tensors may be read here. Subclasses have ways of their own.
// - samples: tuple of samples, see below. No sample is of another kind of tensor.
// - own_dispatch: the bit of dispatch keys that tensors have whose class dispatches by itself.
//
// A sample is a tuple of these fields:
// - the tensor, its address, the address of its storage, and where the storage's bytes begin;
// - offset, elements, bytes of an element, sizes, strides;
// - numbers of the dtype, of the device's kind, and of the device;
// - its dispatch keys.
//
// Numbers of dtypes and kinds may be any, if they are equal where those are.
PyObject* learn_tensor_layout(PyObject* self, PyObject* arguments);

// METH_NOARGS: tensors are read through Python from now on.
PyObject* forget_tensor_layout(PyObject* self, PyObject* none);

// METH_O: tensor_memory(tensor) -> (where the storage begins, offset, elements, bytes of an element, sizes, strides).
// None for a tensor that must be read through Python. It shows how tensors are read, for those who check it.
PyObject* tensor_memory(PyObject* self, PyObject* tensor);

}  // namespace msmemscope
