#include "watch_operands.h"

#include <algorithm>

#include "program_errors.h"
#include "tensor_layout.h"

namespace msmemscope {
namespace {

constexpr int kDeepestList = 8;

constexpr char kGraphName[] = "torch.compile graph";
constexpr watch::Operator kGraph{watch::Source::kGraph, kGraphName, sizeof(kGraphName) - 1, 0, format::kDeviceNone};

PyObject* synchronize_function = nullptr;

bool read_numbers(PyObject* tensor, const char* name, bool is_method, std::vector<std::int64_t>& numbers) {
    PyObject* value = is_method ? PyObject_CallMethod(tensor, name, nullptr) : PyObject_GetAttrString(tensor, name);
    if (value == nullptr || !PyTuple_Check(value)) {
        Py_XDECREF(value);
        return false;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(value); ++index) {
        numbers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(value, index)));
    }
    Py_DECREF(value);
    return PyErr_Occurred() == nullptr;
}

bool content_of_tensor(PyObject* tensor, watch::Content& content) {
    TensorMemory memory{};
    if (read_tensor(tensor, memory)) {
        const std::int64_t* const sizes_end = memory.sizes + memory.dimensions;
        return memory.storage_address != 0 &&
               content_of_view(memory.storage_address + static_cast<std::uint64_t>(memory.offset) * memory.item_bytes,
                               memory.item_bytes, {memory.sizes, sizes_end},
                               {memory.strides, memory.strides + memory.dimensions}, content);
    }
    const std::uint64_t address = first_byte_of(tensor);
    if (address == 0) {
        return false;
    }
    PyObject* item = PyObject_GetAttrString(tensor, "itemsize");
    const std::uint64_t item_bytes = item == nullptr ? 0 : PyLong_AsUnsignedLongLong(item);
    Py_XDECREF(item);
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    const bool is_strided =
        item != nullptr && read_numbers(tensor, "shape", false, shape) && read_numbers(tensor, "stride", true, strides);
    end_exception();  // sparse and nested tensors have no strides
    return is_strided && content_of_view(address, item_bytes, shape, strides, content);
}

template <typename Take>
void for_each_tensor(PyObject* value, Take take, int depth = 0) {
    if (is_tensor(value)) {
        take(value);
    } else if (depth < kDeepestList && (PyList_Check(value) || PyTuple_Check(value))) {
        for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(value); ++index) {
            for_each_tensor(PySequence_Fast_ITEMS(value)[index], take, depth + 1);
        }
    }
}

void gather_ranges(PyObject* value, std::vector<watch::Range>& ranges) {
    for_each_tensor(value, [&](PyObject* tensor) {
        watch::Content content;
        if (content_of_tensor(tensor, content)) {
            ranges.push_back(content.range());
        }
    });
}

void synchronize() {
    if (!watch::concerns_device() || synchronize_function == nullptr) {
        return;
    }
    PyObject* const result = PyObject_CallNoArgs(synchronize_function);
    if (result == nullptr) {
        end_exception();  // the program meets the device's error itself, at its own next synchronisation
    }
    Py_XDECREF(result);
}

watch::Operator described(const WatchedCall& call) {
    return watch::Operator{watch::Source::kAten, call.name->data(), call.name->size(), call.number,
                           format::kDeviceNone};
}

}  // namespace

bool read_written(PyObject* positions, PyObject* names, WrittenArguments& written) {
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(positions); ++index) {
        const Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, index));
        if (position < 0) {
            if (PyErr_Occurred() == nullptr) {
                PyErr_SetString(PyExc_ValueError, "positions of arguments are not negative");
            }
            return false;
        }
        written.positions.push_back(position);
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(names); ++index) {
        PyObject* name = PyTuple_GET_ITEM(names, index);
        if (!PyUnicode_Check(name)) {
            PyErr_SetString(PyExc_TypeError, "names of arguments are strings");
            return false;
        }
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);  // kept for ever, as the plan is
        written.names.push_back(name);
    }
    return true;
}

bool content_of_view(std::uint64_t address, std::uint64_t item_bytes, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, watch::Content& content) {
    if (shape.size() != strides.size() || item_bytes == 0 ||
        std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size <= 0; })) {
        return false;
    }
    content.address = address;
    content.run_bytes = item_bytes;
    for (std::size_t place = shape.size(); place-- > 0;) {
        if (shape[place] == 1) {
            continue;
        }
        const std::int64_t stride_bytes = strides[place] * static_cast<std::int64_t>(item_bytes);
        const auto size = static_cast<std::uint64_t>(shape[place]);
        if (content.outer.empty() && stride_bytes == static_cast<std::int64_t>(content.run_bytes)) {
            content.run_bytes *= size;
        } else {
            content.outer.insert(content.outer.begin(), watch::Dimension{size, stride_bytes});
        }
    }
    return true;
}

void watch_operator_begins(const WatchedCall& call, const WrittenArguments& written, PyObject* args, PyObject* kwargs) {
    std::vector<watch::Range> ranges;
    for (const Py_ssize_t position : written.positions) {
        if (position < PyTuple_GET_SIZE(args)) {
            gather_ranges(PyTuple_GET_ITEM(args, position), ranges);
        }
    }
    if (kwargs != Py_None) {
        for (PyObject* name : written.names) {
            PyObject* value = PyDict_GetItemWithError(kwargs, name);
            if (value != nullptr) {
                gather_ranges(value, ranges);
            }
        }
    }
    synchronize();
    watch::Writes writes;
    writes.ranges = ranges.data();
    writes.count = ranges.size();
    watch::operator_begins(described(call), writes);
}

void watch_operator_ends(const WatchedCall& call, const WrittenArguments& written, const std::vector<Use>& outputs,
                         PyObject* result) {
    std::vector<watch::Range> ranges;
    std::vector<watch::Output> results;
    if (result != Py_None) {
        if (outputs.size() > 1 && (PyTuple_Check(result) || PyList_Check(result))) {
            for (Py_ssize_t index = 0; index < PySequence_Fast_GET_SIZE(result); ++index) {
                const auto position = static_cast<std::size_t>(index);
                if (position < outputs.size() && outputs[position] == Use::kWrite) {
                    gather_ranges(PySequence_Fast_ITEMS(result)[index], ranges);
                }
            }
        } else if (!outputs.empty() && outputs.front() == Use::kWrite) {
            gather_ranges(result, ranges);
        }
        if (watch::asks_for_outputs(call.name->data(), call.name->size())) {
            for_each_tensor(result, [&](PyObject* tensor) {
                watch::Output output;
                const int device = number_of_device(tensor);
                // Memory of a device that is not recorded cannot be told from another's: it keeps its number only.
                output.device = device == kNotObserved ? format::kDeviceNone : static_cast<format::Device>(device);
                if (device != kNotObserved && content_of_tensor(tensor, output.content)) {
                    results.push_back(output);
                }
            });
        }
    }
    synchronize();
    watch::Writes writes;
    writes.ranges = ranges.data();
    writes.count = ranges.size();
    writes.come_later = written.come_later;
    watch::operator_ends(described(call), writes, results.data(), results.size());
}

bool watch_graph_begins(PyObject* inputs) {
    if (!watch::is_active()) {
        return false;
    }
    std::vector<watch::Range> ranges;
    gather_ranges(inputs, ranges);
    synchronize();
    watch::Writes writes;
    writes.ranges = ranges.data();
    writes.count = ranges.size();
    watch::operator_begins(kGraph, writes);
    return true;
}

void watch_graph_ends() {
    synchronize();
    watch::operator_ends(kGraph, watch::Writes{}, nullptr, 0);
}

void set_watch_synchronize(PyObject* function) {
    PyObject* const before = synchronize_function;
    synchronize_function = function == Py_None ? nullptr : Py_NewRef(function);
    Py_XDECREF(before);
}

}  // namespace msmemscope
