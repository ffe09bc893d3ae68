// Operators as torch's dispatcher hands them over to dispatch modes, before it makes Python objects of anything. They
// are boxed: arguments lie as values of one size on a stack. We read and call them without torch's headers.
//
// The layout of torch's memory is learned from calls that we make to a mode of ours. It is believed only if all of them
// read as Python says. Meanwhile memory that may be something else is read through the kernel.
//
// These are torch's own sources for it:
// - c10/core/impl/PyInterpreter.h (the table of functions by which the dispatcher calls Python);
// - aten/src/ATen/core/ivalue.h, stack.h, List_inl.h, dispatch/OperatorEntry.h;
// - c10/core/SafePyObject.h.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// A value on the stack. The payload of a tensor is where torch keeps it.
struct BoxedValue {
    std::uint64_t payload;
    std::uint32_t tag;
    std::uint32_t unused;
};

enum class BoxedKind : std::uint8_t { kNothing, kTensor, kList, kDevice, kOther };

// The handle is the dispatcher's name for an operator. The stack holds its arguments at the top, and later its results.
// The argument interpreter_functions stands for the object whose table of functions the dispatcher calls.
using DispatchFunction = void (*)(const void* interpreter_functions, const void* handle, void* stack);

// The function that is called instead of torch's own, which is returned; null if boxed calls are not understood.
// To be called once, with the GIL.
DispatchFunction replace_dispatch_function(DispatchFunction ours);
// The first argument for a call of torch's own function.
const void* own_interpreter_functions();

// All that follows only once boxed calls are understood.

BoxedKind kind_of(const BoxedValue& value);
// The elements of a list.
struct BoxedList {
    const BoxedValue* begin;
    const BoxedValue* end;
};
BoxedList elements_of(const BoxedValue& list);
// Of a device: torch's numbers of its kind and of the device.
std::uint16_t device_code_of(const BoxedValue& device);

// The uppermost values of a stack; null if it has fewer.
const BoxedValue* uppermost(const void* stack, std::size_t count);

// The address that stands for an operator as long as it is registered. Another one may take its place later.
const void* operator_of(const void* handle);
// Its name ("aten::add") and the name of the overload ("Tensor", or nothing).
const char* name_of_operator(const void* registered);
const char* overload_of_operator(const void* registered);

// Calls the operator with the values on the stack, and leaves its results there. It may throw whatever torch throws.
void call_boxed(const void* handle, void* stack);

// A value as Python has it: tensors, lists of them, and None for anything else. New reference; null with an error set.
// Needs the GIL.
PyObject* value_in_python(const BoxedValue& value);
// A tuple of the uppermost values.
PyObject* boxed_arguments(const void* stack, std::size_t count);

// METH_VARARGS: teach_boxed_call(mode, name, overload, arguments) -> bool. False if the mode cannot be followed.
// The next operator that comes to a mode on top of this thread's stack is this one. It is called in Python with these
// arguments. Each of them is one of these:
// - an int: where torch keeps a tensor;
// - a tuple of two of them: a list of tensors;
// - a tuple of one: the device of that tensor;
// - None: None;
// - True: any value.
PyObject* teach_boxed_call(PyObject* self, PyObject* arguments);

// METH_NOARGS: end_boxed_lessons() -> bool: whether everything was learned.
PyObject* end_boxed_lessons(PyObject* self, PyObject* none);

}  // namespace msmemscope
