#include "operator_collector.h"

#include <cstdint>
#include <string>
#include <vector>

#include "code_table.h"
#include "stacks/python_stack.h"
#include "writer/recorder.h"

namespace msmemscope {
namespace {

// What happens to an argument or a result. Python writes the same numbers.
enum class Use : std::uint8_t { kNone = 0, kRead = 1, kWrite = 2 };

struct KeywordUse {
    PyObject* name;  // interned
    Use use;
};

struct OperatorPlan {
    std::string name;
    std::vector<Use> inputs;  // by position; further positions are not touched
    std::vector<KeywordUse> keyword_inputs;
    std::vector<Use> outputs;  // by position of the schema's returns
    // Valid in one epoch.
    std::uint64_t epoch = 0;
    std::uint32_t name_id = 0;
};

// One access, gathered before anything is written: the operator's start comes first in the log.
struct Access {
    Use use;
    std::int8_t device;
    std::uint64_t address;
    std::int64_t size_bytes;
    std::uint32_t attribute_id;
    std::uint64_t block_sequence;
};

constexpr int kNotObserved = -128;  // what describe_device answers for meta tensors and devices not selected
constexpr int kDeepestList = 8;

// All of it is used under the GIL only.
std::vector<OperatorPlan>& plans() {
    static auto* const instance = new std::vector<OperatorPlan>();  // never destroyed: threads outlive exit
    return *instance;
}
PyTypeObject* tensor_type = nullptr;
PyObject* data_address_function = nullptr;
PyObject* storage_address_function = nullptr;
PyObject* describe_device_function = nullptr;
PyObject* device_numbers = nullptr;   // device -> int
PyObject* attribute_numbers = nullptr;  // (dtype, shape) -> string id, of attribute_epoch
std::uint64_t attribute_epoch = 0;
PyObject* text_shape = nullptr;
PyObject* text_dtype = nullptr;
PyObject* text_device = nullptr;
PyObject* text_nbytes = nullptr;
bool failure_was_said = false;

thread_local std::uint32_t operator_depth = 0;
thread_local std::vector<Access>* gathered = nullptr;

std::vector<Access>& accesses_of_thread() {
    if (gathered == nullptr) {
        gathered = new std::vector<Access>();  // one small vector per thread that runs operators
        gathered->reserve(64);
    }
    gathered->clear();
    return *gathered;
}

// The program must not see an exception of ours.
void swallow_error() {
    PyErr_Clear();
    if (!failure_was_said) {
        failure_was_said = true;
        recorder::say("a tensor could not be described; its accesses are left out (said once)");
    }
}

// The device's number, kNotObserved if it is not to be recorded. Errors: set and kNotObserved.
int device_number(PyObject* device) {
    PyObject* known = PyDict_GetItemWithError(device_numbers, device);
    if (known == nullptr) {
        if (PyErr_Occurred() != nullptr) {
            return kNotObserved;
        }
        PyObject* fresh = PyObject_CallOneArg(describe_device_function, device);
        if (fresh == nullptr || PyDict_SetItem(device_numbers, device, fresh) != 0) {
            Py_XDECREF(fresh);
            return kNotObserved;
        }
        Py_DECREF(fresh);  // the dictionary keeps it
        known = fresh;
    }
    return static_cast<int>(PyLong_AsLong(known));
}

std::uint32_t intern(PyObject* text) {
    const RecordingScope scope(false);
    return scope ? string_id_of(scope, text) : 0;
}

// String id of "dtype:<dtype>,shape:<shape>". 0 with an error set on failure.
std::uint32_t attribute_id(PyObject* dtype, PyObject* shape) {
    if (attribute_epoch != recorder::epoch()) {
        PyDict_Clear(attribute_numbers);
        attribute_epoch = recorder::epoch();
    }
    PyObject* key = PyTuple_Pack(2, dtype, shape);
    if (key == nullptr) {
        return 0;
    }
    std::uint32_t id = 0;
    PyObject* known = PyDict_GetItemWithError(attribute_numbers, key);
    if (known != nullptr) {
        id = static_cast<std::uint32_t>(PyLong_AsUnsignedLong(known));
    } else if (PyErr_Occurred() == nullptr) {
        PyObject* text = PyUnicode_FromFormat("dtype:%S,shape:%S", dtype, shape);
        if (text != nullptr) {
            id = intern(text);
            Py_DECREF(text);
            PyObject* number = PyLong_FromUnsignedLong(id);
            if (number != nullptr) {
                PyDict_SetItem(attribute_numbers, key, number);
                Py_DECREF(number);
            }
        }
    }
    Py_DECREF(key);
    return id;
}

std::uint64_t call_for_address(PyObject* function, PyObject* tensor) {
    PyObject* number = PyObject_CallOneArg(function, tensor);
    if (number == nullptr) {
        return 0;
    }
    const std::uint64_t address = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return address;
}

// The block that a tensor lies in: most tensors begin where their block begins; of views, the storage does.
std::uint64_t block_of(PyObject* tensor, int device, std::uint64_t address) {
    const format::Pool pool = device == format::kDeviceCpu ? format::Pool::kHost : format::Pool::kPta;
    const std::uint64_t sequence = recorder::live_block_sequence(pool, address);
    if (sequence != 0) {
        return sequence;
    }
    const std::uint64_t storage = call_for_address(storage_address_function, tensor);
    return storage == 0 || storage == address ? 0 : recorder::live_block_sequence(pool, storage);
}

// Appends the tensor's access. An error may be set afterwards. Python runs here, and with it possibly
// the garbage collector, which frees tensors: no recording scope may be open, or those would be missed.
void gather_tensor(PyObject* tensor, Use use, bool with_access,
                   std::vector<Access>& accesses) {
    PyObject* device = PyObject_GetAttr(tensor, text_device);
    if (device == nullptr) {
        return;
    }
    const int number = device_number(device);
    Py_DECREF(device);
    if (number == kNotObserved || PyErr_Occurred() != nullptr) {
        return;
    }
    Access access{use, static_cast<std::int8_t>(number), 0, 0, 0, 0};
    if (with_access && use != Use::kNone) {
        access.address = call_for_address(data_address_function, tensor);
        if (access.address == 0) {
            access.use = Use::kNone;  // no storage, or none that has an address (sparse)
            PyErr_Clear();
        }
    }
    if (with_access && access.use != Use::kNone) {
        PyObject* shape = PyObject_GetAttr(tensor, text_shape);
        PyObject* dtype = shape == nullptr ? nullptr : PyObject_GetAttr(tensor, text_dtype);
        PyObject* bytes = dtype == nullptr ? nullptr : PyObject_GetAttr(tensor, text_nbytes);
        if (bytes != nullptr) {
            access.size_bytes = PyLong_AsLongLong(bytes);
            access.attribute_id = attribute_id(dtype, shape);
            access.block_sequence = block_of(tensor, number, access.address);
        }
        Py_XDECREF(bytes);
        Py_XDECREF(dtype);
        Py_XDECREF(shape);
    }
    accesses.push_back(access);
}

// A tensor, or lists of lists of them.
void gather(PyObject* value, Use use, bool with_access, std::vector<Access>& accesses, int depth) {
    if (PyObject_TypeCheck(value, tensor_type)) {
        gather_tensor(value, use, with_access, accesses);
        if (PyErr_Occurred() != nullptr) {
            swallow_error();
        }
        return;
    }
    if (depth < kDeepestList && (PyList_Check(value) || PyTuple_Check(value))) {
        PyObject** items = PySequence_Fast_ITEMS(value);
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
        for (Py_ssize_t index = 0; index < count; ++index) {
            gather(items[index], use, with_access, accesses, depth + 1);
        }
    }
}

Use keyword_use(const OperatorPlan& plan, PyObject* name) {
    for (const KeywordUse& keyword : plan.keyword_inputs) {
        if (keyword.name == name || PyUnicode_Compare(keyword.name, name) == 0) {
            return keyword.use;
        }
    }
    return Use::kNone;
}

void write_accesses(const RecordingScope& scope, const OperatorPlan& plan, const std::vector<Access>& accesses,
                    std::uint32_t python_stack_id) {
    for (const Access& access : accesses) {
        if (access.use == Use::kNone) {
            continue;
        }
        Event event{access.use == Use::kWrite ? format::EventKind::kAccessWrite : format::EventKind::kAccessRead};
        event.pool = access.device == format::kDeviceCpu ? format::Pool::kHost : format::Pool::kPta;
        event.device = access.device;
        event.address = access.address;
        event.size = access.size_bytes;
        event.name_id = plan.name_id;
        event.attribute_id = access.attribute_id;
        event.python_stack_id = python_stack_id;
        event.extra = access.block_sequence;
        recorder::append(scope, event);
    }
}

std::uint32_t stack_for_columns(const RecordingScope& scope) {
    const Settings& settings = recorder::settings();
    return settings.write_python_stack ? take_python_stack(scope, settings.python_stack_depth) : 0;
}

// Where an operator without tensor arguments works: its `device` argument.
int device_argument(PyObject* kwargs) {
    PyObject* device = kwargs == Py_None ? nullptr : PyDict_GetItemWithError(kwargs, text_device);
    if (device == nullptr || device == Py_None) {
        return format::kDeviceCpu;
    }
    const int number = device_number(device);
    if (PyErr_Occurred() != nullptr) {
        swallow_error();
        return format::kDeviceNone;
    }
    return number;
}

void write_operator(const RecordingScope& scope, format::EventKind kind, std::int8_t device, std::uint32_t name_id,
                    std::uint32_t python_stack_id) {
    Event event{kind};
    event.device = device;
    event.name_id = name_id;
    event.python_stack_id = python_stack_id;
    recorder::append(scope, event);
}

// The device of each operator that has begun on this thread, to end with the same one; empty where
// nothing was written.
struct RunningOperator {
    std::int8_t device;
    bool written;
};
constexpr std::uint32_t kDeepestOperator = 64;
thread_local RunningOperator running[kDeepestOperator];

OperatorPlan* plan_of(PyObject* number) {
    const Py_ssize_t index = PyLong_AsSsize_t(number);
    if (index < 0 || static_cast<std::size_t>(index) >= plans().size()) {
        PyErr_SetString(PyExc_IndexError, "no such operator plan");
        return nullptr;
    }
    return &plans()[static_cast<std::size_t>(index)];
}

PyObject* operator_begins(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "operator_begins(plan, args, kwargs)");
        return nullptr;
    }
    OperatorPlan* const plan = plan_of(arguments[0]);
    if (plan == nullptr) {
        return nullptr;
    }
    const std::uint32_t depth = operator_depth++;
    {
        const RecordingScope scope(false);  // also makes a forked child's state ready
        if (!scope) {
            Py_RETURN_NONE;
        }
        if (plan->epoch != recorder::epoch()) {
            plan->name_id = recorder::intern_string(scope, plan->name.data(), plan->name.size());
            plan->epoch = recorder::epoch();
        }
    }
    if (depth == 0) {
        recorder::set_current_operator(plan->name_id);
    }
    if (depth < kDeepestOperator) {
        running[depth].written = false;
    }
    const bool with_access = recorder::is_selected(kSelectAccess);
    if (!with_access && !recorder::is_selected(kSelectLaunch)) {
        Py_RETURN_NONE;
    }
    std::vector<Access>& accesses = accesses_of_thread();
    PyObject* const args = arguments[1];
    PyObject* const kwargs = arguments[2];
    const Py_ssize_t args_count = PyTuple_GET_SIZE(args);
    for (Py_ssize_t index = 0; index < args_count; ++index) {
        const auto position = static_cast<std::size_t>(index);
        const Use use = position < plan->inputs.size() ? plan->inputs[position] : Use::kNone;
        gather(PyTuple_GET_ITEM(args, index), use, with_access, accesses, 0);
    }
    if (kwargs != Py_None && !plan->keyword_inputs.empty()) {
        PyObject* name = nullptr;
        PyObject* value = nullptr;
        Py_ssize_t place = 0;
        while (PyDict_Next(kwargs, &place, &name, &value) != 0) {
            gather(value, keyword_use(*plan, name), with_access, accesses, 0);
        }
    }
    const int device = accesses.empty() ? device_argument(kwargs) : accesses.front().device;
    if (device == kNotObserved) {
        Py_RETURN_NONE;
    }
    const RecordingScope scope(true);
    if (!scope) {
        Py_RETURN_NONE;
    }
    const std::uint32_t stack = stack_for_columns(scope);
    if (recorder::is_selected(kSelectLaunch)) {
        write_operator(scope, format::EventKind::kAtenStart, static_cast<std::int8_t>(device), plan->name_id, stack);
    }
    if (depth < kDeepestOperator) {
        running[depth] = RunningOperator{static_cast<std::int8_t>(device), true};
    }
    write_accesses(scope, *plan, accesses, stack);
    Py_RETURN_NONE;
}

// Several results of the schema come as a tuple; a single one comes as it is, also when it is a list.
void gather_results(const OperatorPlan& plan, PyObject* result, std::vector<Access>& accesses) {
    if (plan.outputs.empty() || result == Py_None) {
        return;
    }
    if (plan.outputs.size() > 1 && (PyTuple_Check(result) || PyList_Check(result))) {
        PyObject** items = PySequence_Fast_ITEMS(result);
        const Py_ssize_t count = PySequence_Fast_GET_SIZE(result);
        for (Py_ssize_t index = 0; index < count; ++index) {
            const auto position = static_cast<std::size_t>(index);
            const Use use = position < plan.outputs.size() ? plan.outputs[position] : Use::kNone;
            if (use != Use::kNone) {
                gather(items[index], use, true, accesses, 0);
            }
        }
    } else if (plan.outputs.front() != Use::kNone) {
        gather(result, plan.outputs.front(), true, accesses, 0);
    }
}

PyObject* operator_ends(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "operator_ends(plan, result)");
        return nullptr;
    }
    OperatorPlan* const plan = plan_of(arguments[0]);
    if (plan == nullptr) {
        return nullptr;
    }
    if (operator_depth > 0) {
        --operator_depth;
    }
    const std::uint32_t depth = operator_depth;
    if (depth == 0) {
        recorder::set_current_operator(0);
    }
    if (depth >= kDeepestOperator || !running[depth].written) {
        Py_RETURN_NONE;
    }
    std::vector<Access>& accesses = accesses_of_thread();
    if (recorder::is_selected(kSelectAccess)) {
        gather_results(*plan, arguments[1], accesses);
    }
    const RecordingScope scope(true);
    if (!scope) {
        Py_RETURN_NONE;
    }
    const std::uint32_t stack = stack_for_columns(scope);
    write_accesses(scope, *plan, accesses, stack);
    if (recorder::is_selected(kSelectLaunch)) {
        write_operator(scope, format::EventKind::kAtenEnd, running[depth].device, plan->name_id, stack);
    }
    Py_RETURN_NONE;
}

bool read_uses(PyObject* sequence, std::vector<Use>& uses) {
    const Py_ssize_t count = PyTuple_GET_SIZE(sequence);
    for (Py_ssize_t index = 0; index < count; ++index) {
        const long use = PyLong_AsLong(PyTuple_GET_ITEM(sequence, index));
        if (use < 0 || use > 2) {
            if (PyErr_Occurred() == nullptr) {
                PyErr_SetString(PyExc_ValueError, "a use is 0 (none), 1 (read) or 2 (write)");
            }
            return false;
        }
        uses.push_back(static_cast<Use>(use));
    }
    return true;
}

PyObject* define_operator(PyObject*, PyObject* arguments) {
    const char* name = nullptr;
    PyObject* inputs = nullptr;
    PyObject* keywords = nullptr;
    PyObject* outputs = nullptr;
    if (PyArg_ParseTuple(arguments, "sO!O!O!", &name, &PyTuple_Type, &inputs, &PyDict_Type, &keywords, &PyTuple_Type,
                         &outputs) == 0) {
        return nullptr;
    }
    OperatorPlan plan;
    plan.name = name;
    if (!read_uses(inputs, plan.inputs) || !read_uses(outputs, plan.outputs)) {
        return nullptr;
    }
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t place = 0;
    while (PyDict_Next(keywords, &place, &key, &value) != 0) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "names of arguments are strings");
            return nullptr;
        }
        Py_INCREF(key);
        PyUnicode_InternInPlace(&key);  // kept for ever, as the plan is
        plan.keyword_inputs.push_back(KeywordUse{key, static_cast<Use>(PyLong_AsLong(value))});
    }
    plans().push_back(plan);
    return PyLong_FromSize_t(plans().size() - 1);
}

void keep(PyObject*& place, PyObject* value) {
    Py_INCREF(value);
    PyObject* const before = place;
    place = value;
    Py_XDECREF(before);
}

PyObject* set_tensor_access(PyObject*, PyObject* arguments) {
    PyObject* type = nullptr;
    PyObject* data_address = nullptr;
    PyObject* storage_address = nullptr;
    PyObject* describe_device = nullptr;
    if (PyArg_ParseTuple(arguments, "O!OOO", &PyType_Type, &type, &data_address, &storage_address, &describe_device) ==
        0) {
        return nullptr;
    }
    Py_INCREF(type);
    tensor_type = reinterpret_cast<PyTypeObject*>(type);
    keep(data_address_function, data_address);
    keep(storage_address_function, storage_address);
    keep(describe_device_function, describe_device);
    if (device_numbers == nullptr) {
        device_numbers = PyDict_New();
        attribute_numbers = PyDict_New();
        text_shape = PyUnicode_InternFromString("shape");
        text_dtype = PyUnicode_InternFromString("dtype");
        text_device = PyUnicode_InternFromString("device");
        text_nbytes = PyUnicode_InternFromString("nbytes");
    } else {
        PyDict_Clear(device_numbers);  // what is observed may have changed
    }
    if (device_numbers == nullptr || attribute_numbers == nullptr) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

}  // namespace

PyMethodDef kOperatorMethods[] = {
    {"define_operator", define_operator, METH_VARARGS, "Takes an operator's plan; returns its number."},
    {"operator_begins", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&operator_begins)), METH_FASTCALL,
     "Records the start of an operator and what it reads and writes."},
    {"operator_ends", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&operator_ends)), METH_FASTCALL,
     "Records what an operator returned and its end."},
    {"set_tensor_access", set_tensor_access, METH_VARARGS, "Tells how to recognise and read tensors."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
