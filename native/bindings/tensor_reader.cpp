#include "tensor_reader.h"

#include <algorithm>
#include <atomic>

#include "core/writer/recorder.h"
#include "program_errors.h"
#include "tensor_attributes.h"
#include "tensor_layout.h"
#include "thread_state.h"

namespace msmemscope {
namespace {

constexpr int kDeepestList = 8;

// All of it is used under the GIL only.
PyTypeObject* tensor_type = nullptr;
PyObject* storage_address_function = nullptr;
PyObject* describe_device_function = nullptr;
PyObject* device_numbers = nullptr;  // device -> int
PyObject* cpu_device = nullptr;
PyObject* text_shape = nullptr;
PyObject* text_dimensions = nullptr;
PyObject* text_dtype = nullptr;
PyObject* text_device = nullptr;
PyObject* text_nbytes = nullptr;
PyObject* text_itemsize = nullptr;
PyObject* text_storage_offset = nullptr;
bool failure_was_noted = false;

__thread bool met_unobserved = false;  // a tensor, since the list was emptied

struct Gathering {
    std::vector<Access> accesses;

    Gathering() { accesses.reserve(64); }
};

// The program must not see an exception of ours.
void swallow_error() {
    end_exception();
    if (!failure_was_noted) {
        failure_was_noted = true;
        recorder::note_fact("unobserved.accesses", "of tensors without one plain block of memory (sparse, nested)");
    }
}

// The device's number, kNotObserved if it is not to be recorded. Errors: set and kNotObserved.
int device_number(PyObject* device) {
    PyObject* known = PyDict_GetItemWithError(device_numbers, device);
    if (known == nullptr) {
        if (PyErr_Occurred() != nullptr) {
            return kNotObserved;
        }
        PyObject* answer = PyObject_CallOneArg(describe_device_function, device);
        int number = kNotObserved;
        int holds = 0;
        if (answer == nullptr || PyArg_ParseTuple(answer, "ip", &number, &holds) == 0) {
            Py_XDECREF(answer);
            return kNotObserved;
        }
        // "npu" without an index means the current one, which changes.
        if (holds != 0) {
            PyDict_SetItem(device_numbers, device, PyTuple_GET_ITEM(answer, 0));
        }
        Py_DECREF(answer);
        return number;
    }
    return static_cast<int>(PyLong_AsLong(known));
}

// Numbers of devices by torch's own.
struct KnownDevice {
    std::uint16_t code;
    int number;
};
constexpr std::size_t kKnownDevices = 32;
// Read by any thread, extended under the GIL.
KnownDevice known_devices[kKnownDevices];
std::atomic<std::size_t> known_device_count{0};
constexpr std::uint16_t kCpuCode = 0xFF00;  // the first kind of device, without a number

const KnownDevice* find_device(std::uint16_t code) {
    const std::size_t count = known_device_count.load(std::memory_order_acquire);
    for (std::size_t place = 0; place < count; ++place) {
        if (known_devices[place].code == code) {
            return &known_devices[place];
        }
    }
    return nullptr;
}

// device: as Python has it. Only one whose number holds for good is remembered.
void learn_device(PyObject* tensor, PyObject* device, int number) {
    TensorMemory memory{};
    if (known_device_count < kKnownDevices && read_tensor(tensor, memory) &&
        find_device(memory.device_code) == nullptr && PyDict_GetItemWithError(device_numbers, device) != nullptr) {
        known_devices[known_device_count] = KnownDevice{memory.device_code, number};
        known_device_count.fetch_add(1, std::memory_order_release);
    }
}

// A tensor that is read where torch keeps it; false if it must be read through Python.
bool gather_read(const TensorMemory& memory, Use use, bool with_access, std::vector<Access>& accesses) {
    const KnownDevice* const device = find_device(memory.device_code);
    if (device == nullptr) {
        return false;
    }
    const int number = device->number;
    if (number == kNotObserved) {
        met_unobserved = true;
        return true;
    }
    Access access{
        use, static_cast<format::Device>(number), number == format::kDeviceCpu && memory.dimensions == 0, 0, 0, 0, 0};
    if (memory.storage_address == 0 || !with_access) {
        access.use = with_access ? Use::kNone : use;
    } else if (use != Use::kNone) {
        if (!attribute_of(memory, access.attribute_id)) {
            return false;
        }
        access.size_bytes = memory.elements * memory.item_bytes;
        access.address = memory.storage_address + static_cast<std::uint64_t>(memory.offset) * memory.item_bytes;
        access.block_sequence =
            recorder::live_block_sequence(format::pool_of_tensors(access.device), memory.storage_address);
    }
    accesses.push_back(access);
    return true;
}

bool gather_directly(PyObject* tensor, Use use, bool with_access, std::vector<Access>& accesses) {
    TensorMemory memory{};
    return read_tensor(tensor, memory) && gather_read(memory, use, with_access, accesses);
}

// Where the tensor's storage begins, which for most is where a block begins. 0 if it has none; errors may be set.
std::uint64_t storage_address(PyObject* tensor) {
    PyObject* number = PyObject_CallOneArg(storage_address_function, tensor);
    if (number == nullptr) {
        return 0;
    }
    const std::uint64_t address = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return address;
}

// Bytes from the beginning of its storage to a tensor's own first one. Errors may be set.
std::uint64_t offset_in_storage(PyObject* tensor) {
    PyObject* number = PyObject_CallMethodNoArgs(tensor, text_storage_offset);
    const std::uint64_t elements = number == nullptr ? 0 : PyLong_AsUnsignedLongLong(number);
    Py_XDECREF(number);
    if (elements == 0 || PyErr_Occurred() != nullptr) {
        return 0;
    }
    PyObject* size = PyObject_GetAttr(tensor, text_itemsize);
    const std::uint64_t element_bytes = size == nullptr ? 0 : PyLong_AsUnsignedLongLong(size);
    Py_XDECREF(size);
    return elements * element_bytes;
}

// Of a kind of tensor that is not known yet: the next ones may be read where torch keeps them. An error may be set
// afterwards.
void learn(PyObject* tensor, PyObject* shape, std::uint64_t storage, std::uint64_t offset_bytes,
           std::int64_t size_bytes) {
    PyObject* size = PyObject_GetAttr(tensor, text_itemsize);
    const long item_bytes = size == nullptr ? 0 : PyLong_AsLong(size);
    Py_XDECREF(size);
    if (item_bytes <= 0 || item_bytes > UINT8_MAX || !PyTuple_Check(shape)) {
        return;
    }
    ToldTensor told{storage,
                    static_cast<std::int64_t>(offset_bytes) / item_bytes,
                    size_bytes / item_bytes,
                    static_cast<std::uint32_t>(item_bytes),
                    {}};
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(shape); ++place) {
        told.sizes.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(shape, place)));
    }
    if (PyErr_Occurred() == nullptr) {
        learn_from(tensor, told);
    }
}

// Errors may be set afterwards.
bool is_number(PyObject* tensor) {
    PyObject* const dimensions = PyObject_GetAttr(tensor, text_dimensions);
    const bool has_none = dimensions != nullptr && PyLong_AsLong(dimensions) == 0;
    Py_XDECREF(dimensions);
    return has_none;
}

// Appends the tensor's access. An error may be set afterwards. Python runs here, and with it possibly
// the garbage collector, which frees tensors: no recording scope may be open, or those would be missed.
void gather_tensor(PyObject* tensor, Use use, bool with_access, std::vector<Access>& accesses) {
    PyObject* device = PyObject_GetAttr(tensor, text_device);
    if (device == nullptr) {
        return;
    }
    const int number = device_number(device);
    if (PyErr_Occurred() == nullptr) {
        learn_device(tensor, device, number);
    }
    Py_DECREF(device);
    if (number == kNotObserved || PyErr_Occurred() != nullptr) {
        met_unobserved = true;
        return;
    }
    Access access{use, static_cast<format::Device>(number), number == format::kDeviceCpu && is_number(tensor), 0, 0, 0,
                  0};
    std::uint64_t storage = 0;
    if (with_access && use != Use::kNone) {
        storage = storage_address(tensor);
        if (storage == 0) {
            access.use = Use::kNone;  // no storage, or none that has an address (sparse)
            end_exception();
        }
    }
    if (with_access && access.use != Use::kNone) {
        PyObject* shape = PyObject_GetAttr(tensor, text_shape);
        PyObject* dtype = shape == nullptr ? nullptr : PyObject_GetAttr(tensor, text_dtype);
        PyObject* bytes = dtype == nullptr ? nullptr : PyObject_GetAttr(tensor, text_nbytes);
        if (bytes != nullptr) {
            const std::uint64_t offset = offset_in_storage(tensor);
            access.size_bytes = PyLong_AsLongLong(bytes);
            access.attribute_id = attribute_id(dtype, shape);
            access.address = storage + offset;
            if (TensorMemory memory{}; read_tensor(tensor, memory)) {
                learn_type_text(memory.type_code, dtype);
            }
            if (may_learn_from(tensor) && PyErr_Occurred() == nullptr) {
                learn(tensor, shape, storage, offset, access.size_bytes);
            }
            access.block_sequence = recorder::live_block_sequence(format::pool_of_tensors(access.device), storage);
        }
        Py_XDECREF(bytes);
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
    }
    accesses.push_back(access);
}

// A tensor, or lists of lists of them.
void gather_to_depth(PyObject* value, Use use, bool with_access, std::vector<Access>& accesses, int depth) {
    if (PyObject_TypeCheck(value, tensor_type)) {
        if (!gather_directly(value, use, with_access, accesses)) {
            gather_tensor(value, use, with_access, accesses);
        }
        if (PyErr_Occurred() != nullptr) {
            swallow_error();
        }
        return;
    }
    if (depth < kDeepestList && (PyList_Check(value) || PyTuple_Check(value))) {
        PyObject** items = PySequence_Fast_ITEMS(value);
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
        for (Py_ssize_t index = 0; index < count; ++index) {
            gather_to_depth(items[index], use, with_access, accesses, depth + 1);
        }
    }
}

void keep(PyObject*& place, PyObject* value) {
    Py_INCREF(value);
    PyObject* const before = place;
    place = value;
    Py_XDECREF(before);
}

}  // namespace

std::vector<Access>& accesses_of_thread() {
    std::vector<Access>& gathered = state_of_thread<Gathering>().accesses;
    gathered.clear();
    met_unobserved = false;
    return gathered;
}

format::Device device_of(const std::vector<Access>& accesses) {
    const auto first =
        std::find_if(accesses.begin(), accesses.end(), [](const Access& access) { return !access.is_number; });
    return first == accesses.end() ? accesses.front().device : first->device;
}

Gathered gather_at(const void* tensor, Use use, bool with_access, std::vector<Access>& accesses) {
    TensorMemory memory{};
    if (!read_tensor_at(tensor, memory)) {
        return Gathered::kNotReadable;
    }
    if (has_own_dispatch(tensor)) {
        return Gathered::kOwnDispatch;
    }
    return gather_read(memory, use, with_access, accesses) ? Gathered::kDone : Gathered::kNotReadable;
}

void gather(PyObject* value, Use use, bool with_access, std::vector<Access>& accesses) {
    gather_to_depth(value, use, with_access, accesses, 0);
}

bool is_tensor(PyObject* value) { return tensor_type != nullptr && PyObject_TypeCheck(value, tensor_type); }

std::uint64_t first_byte_of(PyObject* tensor) {
    TensorMemory memory{};
    if (read_tensor(tensor, memory)) {
        return memory.storage_address == 0
                   ? 0
                   : memory.storage_address + static_cast<std::uint64_t>(memory.offset) * memory.item_bytes;
    }
    const std::uint64_t storage = storage_address(tensor);
    const std::uint64_t address = storage == 0 ? 0 : storage + offset_in_storage(tensor);
    if (PyErr_Occurred() != nullptr) {
        end_exception();
        return 0;
    }
    return address;
}

std::uint64_t bytes_of(PyObject* tensor) {
    TensorMemory memory{};
    if (read_tensor(tensor, memory)) {
        return static_cast<std::uint64_t>(memory.elements) * memory.item_bytes;
    }
    PyObject* const size = PyObject_GetAttr(tensor, text_nbytes);
    const std::uint64_t bytes = size == nullptr ? 0 : PyLong_AsUnsignedLongLong(size);
    Py_XDECREF(size);
    if (PyErr_Occurred() != nullptr) {
        end_exception();
        return 0;
    }
    return bytes;
}

int number_of_device(PyObject* tensor) {
    PyObject* device = PyObject_GetAttr(tensor, text_device);
    const int number = device == nullptr ? kNotObserved : device_number(device);
    Py_XDECREF(device);
    end_exception();
    return number;
}

int device_argument(PyObject* kwargs) {
    PyObject* device = kwargs == Py_None ? nullptr : PyDict_GetItemWithError(kwargs, text_device);
    if (device == nullptr || device == Py_None) {
        if (met_unobserved) {
            return kNotObserved;
        }
        device = cpu_device;
    }
    const int number = device_number(device);
    if (PyErr_Occurred() != nullptr) {
        swallow_error();
        return format::kDeviceNone;
    }
    return number;
}

bool device_of_code(const std::uint16_t* code, int& number) {
    if (code == nullptr && met_unobserved) {
        number = kNotObserved;
        return true;
    }
    const KnownDevice* const device = find_device(code == nullptr ? kCpuCode : *code);
    number = device == nullptr ? kNotObserved : device->number;
    return device != nullptr;
}

PyObject* set_tensor_access(PyObject*, PyObject* arguments) {
    PyObject* type = nullptr;
    PyObject* storage_address = nullptr;
    PyObject* describe_device = nullptr;
    PyObject* cpu = nullptr;
    if (PyArg_ParseTuple(arguments, "O!OOO", &PyType_Type, &type, &storage_address, &describe_device, &cpu) == 0) {
        return nullptr;
    }
    Py_INCREF(type);
    tensor_type = reinterpret_cast<PyTypeObject*>(type);
    keep(storage_address_function, storage_address);
    keep(describe_device_function, describe_device);
    keep(cpu_device, cpu);
    if (device_numbers == nullptr) {
        device_numbers = PyDict_New();
        text_shape = PyUnicode_InternFromString("shape");
        text_dimensions = PyUnicode_InternFromString("ndim");
        text_dtype = PyUnicode_InternFromString("dtype");
        text_device = PyUnicode_InternFromString("device");
        text_nbytes = PyUnicode_InternFromString("nbytes");
        text_itemsize = PyUnicode_InternFromString("itemsize");
        text_storage_offset = PyUnicode_InternFromString("storage_offset");
    } else {
        PyDict_Clear(device_numbers);  // what is observed may have changed
        known_device_count = 0;
    }
    if (device_numbers == nullptr) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

}  // namespace msmemscope
