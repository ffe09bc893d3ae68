#include "boxed_calls.h"

#include <cstring>

#include "boxed_layout.h"
#include "loaded_library.h"

namespace msmemscope {
namespace {

constexpr std::size_t kMostFunctions = 128;
constexpr std::size_t kInFront = 2;  // words that belong to a table of virtual functions and lie in front of it

template <typename Value>
Value read_at(const void* base, std::size_t place) {
    Value value;
    std::memcpy(&value, static_cast<const char*>(base) + place, sizeof(value));
    return value;
}

// The table that takes the place of the interpreter's own functions. It has all of them except one, which is ours.
const void* table[kInFront + kMostFunctions];
struct Functions {
    const void* const* table;
};
Functions functions{nullptr};
const void* own_functions = nullptr;

// The one tensor that stands for none.
const void* undefined_tensor() {
    static const void* const place = find_in_library("libc10.so", "_ZN3c1019UndefinedTensorImpl10_singletonE");
    return place;
}

// Functions of torch that make a Python object for a tensor. Some versions take the tensor away from the caller. So
// they are given a copy, which torch makes and ends.
using CopyTensor = std::int32_t (*)(const void* tensor, void** copy);
using EndTensor = std::int32_t (*)(void* copy);
using WrapTensor = PyObject* (*)(void* tensor);

PyObject* tensor_in_python(const BoxedValue& value) {
    static const auto copy =
        reinterpret_cast<CopyTensor>(find_in_library("libtorch_cpu.so", "aoti_torch_new_tensor_handle"));
    static const auto end =
        reinterpret_cast<EndTensor>(find_in_library("libtorch_cpu.so", "aoti_torch_delete_tensor_object"));
    static const auto wrap = [] {
        void* const by_reference = find_in_library("libtorch_python.so", "_Z16THPVariable_WrapRKN2at10TensorBaseE");
        return reinterpret_cast<WrapTensor>(
            by_reference != nullptr ? by_reference
                                    : find_in_library("libtorch_python.so", "_Z16THPVariable_WrapN2at10TensorBaseE"));
    }();
    void* copied = nullptr;
    if (copy == nullptr || end == nullptr || wrap == nullptr || copy(&value.payload, &copied) != 0) {
        Py_RETURN_NONE;
    }
    PyObject* const wrapped = wrap(copied);
    end(copied);
    return wrapped;
}

}  // namespace

DispatchFunction replace_dispatch_function(DispatchFunction ours) {
    const BoxedLayout* const layout = boxed_layout();
    if (layout == nullptr || layout->functions_count > kMostFunctions || own_functions != nullptr) {
        return nullptr;
    }
    own_functions = *layout->functions;
    const auto* const own_table = read_at<const void* const*>(own_functions, 0);
    std::memcpy(table, own_table - kInFront, (kInFront + layout->functions_count) * sizeof(void*));
    table[kInFront + layout->dispatch_place] = reinterpret_cast<const void*>(ours);
    functions.table = table + kInFront;
    // Torch itself replaces this address while threads run, when its interpreter ends.
    __atomic_store_n(layout->functions, reinterpret_cast<const void* const*>(&functions), __ATOMIC_RELEASE);
    return reinterpret_cast<DispatchFunction>(const_cast<void*>(own_table[layout->dispatch_place]));
}

const void* own_interpreter_functions() { return own_functions; }

BoxedKind kind_of(const BoxedValue& value) {
    const BoxedLayout& layout = *boxed_layout();
    if (value.tag == layout.tensor_tag) {
        return reinterpret_cast<const void*>(value.payload) == undefined_tensor() ? BoxedKind::kNothing
                                                                                  : BoxedKind::kTensor;
    }
    if (value.tag == layout.list_tag) {
        return BoxedKind::kList;
    }
    if (value.tag == layout.nothing_tag) {
        return BoxedKind::kNothing;
    }
    return value.tag == layout.device_tag ? BoxedKind::kDevice : BoxedKind::kOther;
}

BoxedList elements_of(const BoxedValue& list) {
    return read_at<BoxedList>(reinterpret_cast<const void*>(list.payload), boxed_layout()->elements);
}

std::uint16_t device_code_of(const BoxedValue& device) { return static_cast<std::uint16_t>(device.payload); }

const BoxedValue* uppermost(const void* stack, std::size_t count) {
    const auto values = read_at<BoxedList>(stack, 0);
    return static_cast<std::size_t>(values.end - values.begin) < count ? nullptr : values.end - count;
}

const void* operator_of(const void* handle) { return read_at<const void*>(handle, 0); }
const char* name_of_operator(const void* registered) { return read_at<const char*>(registered, 0); }
const char* overload_of_operator(const void* registered) {
    return read_at<const char*>(registered, boxed_layout()->overload);
}

void call_boxed(const void* handle, void* stack) {
    const BoxedLayout& layout = *boxed_layout();
    const void* const apart[] = {handle, nullptr};
    layout.call(layout.handle_lies_apart ? apart : handle, stack);
}

PyObject* value_in_python(const BoxedValue& value) {
    switch (kind_of(value)) {
        case BoxedKind::kTensor:
            return tensor_in_python(value);
        case BoxedKind::kList: {
            const BoxedList elements = elements_of(value);
            PyObject* const list = PyList_New(0);
            for (const BoxedValue* each = elements.begin; list != nullptr && each != elements.end; ++each) {
                PyObject* const item = value_in_python(*each);
                const bool is_added = item != nullptr && PyList_Append(list, item) == 0;
                Py_XDECREF(item);
                if (!is_added) {
                    Py_DECREF(list);
                    return nullptr;
                }
            }
            return list;
        }
        case BoxedKind::kNothing:
        case BoxedKind::kDevice:
        case BoxedKind::kOther:
            break;
    }
    Py_RETURN_NONE;
}

PyObject* boxed_arguments(const void* stack, std::size_t count) {
    const BoxedValue* const values = uppermost(stack, count);
    const auto known = values == nullptr ? 0 : static_cast<Py_ssize_t>(count);
    PyObject* const tuple = PyTuple_New(known);
    for (Py_ssize_t index = 0; tuple != nullptr && index < known; ++index) {
        PyObject* const value = value_in_python(values[index]);
        if (value == nullptr) {
            Py_DECREF(tuple);
            return nullptr;
        }
        PyTuple_SET_ITEM(tuple, index, value);
    }
    return tuple;
}

}  // namespace msmemscope
