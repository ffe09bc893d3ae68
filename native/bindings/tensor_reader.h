// Reading tensors from C++ without torch's headers: their addresses, sizes and devices, and the blocks they lie in. It
// asks Python for attributes.
//
// Python runs in here, and with it possibly the garbage collector, which frees tensors. So no recording scope may be
// open, or those frees would be missed. It needs the GIL, except where it reads a tensor where torch keeps it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "core/format/record.h"

namespace msmemscope {

// The use of an argument or a result. Python writes the same numbers.
enum class Use : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2 };

// One access, gathered before anything is written: the operator's start comes first in the log.
struct Access {
    Use use;
    format::Device device;
    bool is_number;  // without dimensions, on the host: it does not say where an operator works
    std::uint64_t address;
    std::int64_t size_bytes;
    std::uint32_t attribute_id;
    std::uint64_t block_sequence;
};

// Where an operator works that has these: on the device of its first tensor that is more than a number. Some of them.
format::Device device_of(const std::vector<Access>& accesses);

// The answer of describe_device for meta tensors and for devices that are not recorded.
inline constexpr int kNotObserved = -128;

// The calling thread's list, emptied.
std::vector<Access>& accesses_of_thread();

// The outcome of reading a tensor without Python.
enum class Gathered : std::uint8_t { kDone, kOwnDispatch, kNotReadable };

// Appends the access of a tensor where torch keeps it, if it can be read there. Needs no GIL.
Gathered gather_at(const void* tensor, Use use, bool with_access, std::vector<Access>& accesses);

// Appends an access per tensor: the value is a tensor, or lists of lists of them, or anything else,
// which is passed over. Without with_access, only the device of each is read. Never leaves an error.
void gather(PyObject* value, Use use, bool with_access, std::vector<Access>& accesses);

// Whether it is a tensor, and where its first element lies: 0 if it has no memory. Never leaves an error.
bool is_tensor(PyObject* value);
std::uint64_t first_byte_of(PyObject* tensor);
// The bytes of its elements; 0 if it does not say. Never leaves an error.
std::uint64_t bytes_of(PyObject* tensor);
// The number of its device; kNotObserved if that is not recorded. Never leaves an error.
int number_of_device(PyObject* tensor);

// The device of an operator, if none of its tensor arguments was gathered: its `device` argument, else the cpu. The
// result is kNotObserved if its tensors are on devices that are not recorded. Never leaves an error.
int device_argument(PyObject* kwargs);

// The same without Python. code: torch's numbers of the device that an argument names; null: it names none. False if it
// has to be asked in Python.
bool device_of_code(const std::uint16_t* code, int& number);

// METH_VARARGS: set_tensor_access(tensor_type, storage_address, describe_device, cpu) -> None
// - storage_address(tensor): where the bytes of its storage begin, 0 or an error if it has none.
// - describe_device(device): (number, whether that is so for good).
// - cpu: the device of tensors that name none.
PyObject* set_tensor_access(PyObject* self, PyObject* arguments);

}  // namespace msmemscope
