#include "operator_collector.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "boxed_calls.h"
#include "boxed_dispatch.h"
#include "core/stacks/python_stack.h"
#include "core/writer/recorder.h"
#include "dispatch_stack.h"
#include "operator_dispatch.h"
#include "sources/pinned_memory.h"
#include "tensor_attributes.h"
#include "tensor_layout.h"
#include "tensor_reader.h"
#include "watch_operands.h"

namespace msmemscope {
namespace {

// Looked up and extended under the GIL only. Python runs in the middle of an operator, where it is watched, and another
// thread may add a plan meanwhile: plans never move.
std::deque<OperatorPlan>& plans() {
    static auto* const instance = new std::deque<OperatorPlan>();  // never destroyed: threads outlive exit
    return *instance;
}
__thread std::uint32_t operator_depth = 0;
Use keyword_use(const OperatorPlan& plan, PyObject* name) {
    for (const KeywordUse& keyword : plan.keyword_inputs) {
        if (keyword.name == name || PyUnicode_Compare(keyword.name, name) == 0) {
            return keyword.use;
        }
    }
    return Use::kNone;
}

// The fields that all records of one moment of an operator share.
struct Moment {
    std::uint64_t timestamp_ns;
    std::uint32_t name_id;
    std::uint32_t python_stack_id;
    std::uint8_t flags;
};

std::uint32_t stack_for_columns(const RecordingScope& scope) {
    const Settings& settings = recorder::settings();
    return settings.write_python_stack ? take_python_stack(scope, settings.python_stack_depth) : 0;
}

std::uint32_t name_id_of(const RecordingScope& scope, OperatorPlan& plan) {
    constexpr unsigned kHalf = 32;
    const std::uint64_t epoch = recorder::epoch() << kHalf;
    const std::uint64_t known = plan.name_in_epoch.load(std::memory_order_relaxed);
    if (epoch == known >> kHalf << kHalf && known != 0) {
        return static_cast<std::uint32_t>(known);
    }
    const std::uint32_t id = recorder::intern_string(scope, plan.name.data(), plan.name.size());
    plan.name_in_epoch.store(epoch | id, std::memory_order_relaxed);
    return id;
}

Event event_of(format::EventKind kind, format::Device device, const Moment& moment) {
    Event event{kind};
    event.device = device;
    event.flags = moment.flags;
    event.name_id = moment.name_id;
    event.python_stack_id = moment.python_stack_id;
    event.timestamp_ns = moment.timestamp_ns;
    return event;
}

void write_accesses(const RecordingScope& scope, const std::vector<Access>& accesses, const Moment& moment) {
    for (const Access& access : accesses) {
        if (access.use == Use::kNone) {
            continue;
        }
        const auto kind = access.use == Use::kWrite ? format::EventKind::kAccessWrite : format::EventKind::kAccessRead;
        Event event = event_of(kind, access.device, moment);
        event.pool = format::pool_of_tensors(access.device);
        event.address = access.address;
        event.size = access.size_bytes;
        event.attribute_id = access.attribute_id;
        event.extra = access.block_sequence;
        recorder::append(scope, event);
    }
}

// The device and the stack of each operator that has begun on this thread, to end with the same ones; empty where
// nothing was written. Frames of Python stay where they are while an operator runs.
struct RunningOperator {
    format::Device device;
    bool written;
    std::uint32_t python_stack_id;
    std::uint64_t epoch;  // of the stack
};
constexpr std::uint32_t kDeepestOperator = 64;
__thread RunningOperator running[kDeepestOperator];

// The operators of this thread that have begun and not ended. Coroutines of the program may switch within operators.
// Then operators end in another order.
__thread BegunOperator begun[kDeepestOperator];

WatchedCall watched_call(const OperatorPlan& plan) {
    return WatchedCall{&plan.name, plan.calls.load(std::memory_order_relaxed)};
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
                gather(items[index], use, true, accesses);
            }
        }
    } else if (plan.outputs.front() != Use::kNone) {
        gather(result, plan.outputs.front(), true, accesses);
    }
}

}  // namespace

OperatorPlan* plan_of(PyObject* number) {
    const Py_ssize_t index = PyLong_AsSsize_t(number);
    if (index < 0 || static_cast<std::size_t>(index) >= plans().size()) {
        PyErr_SetString(PyExc_IndexError, "no such operator plan");
        return nullptr;
    }
    return &plans()[static_cast<std::size_t>(index)];
}

Recorded enter_operator(OperatorPlan& plan, const BegunOperator& called, recorder::Pass pass) {
    const std::uint32_t depth = operator_depth++;
    if (depth < kDeepestOperator) {
        begun[depth] = called;
        if (called.args != nullptr) {
            Py_INCREF(called.func);
            Py_INCREF(called.args);
        }
        running[depth].written = false;
    }
    {
        const RecordingScope scope(false);  // also makes a forked child's state ready
        if (!scope) {
            return {false, false, 0};
        }
        if (depth == 0) {
            recorder::set_current_operator(name_id_of(scope, plan));
        }
    }
    if (depth == 0) {
        recorder::set_pass(pass);
        plan.calls.fetch_add(1, std::memory_order_relaxed);
    }
    const bool with_access = recorder::is_selected(kSelectAccess);
    return {with_access || recorder::is_selected(kSelectLaunch), with_access, 0};
}

void record_beginning(OperatorPlan& plan, format::Device device, const std::vector<Access>& accesses) {
    const std::uint32_t depth = operator_depth - 1;
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    const Moment moment{recorder::now_ns(), name_id_of(scope, plan), stack_for_columns(scope), recorder::pass_flags()};
    if (recorder::is_selected(kSelectLaunch)) {
        recorder::append(scope, event_of(format::EventKind::kAtenStart, device, moment));
    }
    if (depth < kDeepestOperator) {
        running[depth] = RunningOperator{device, true, moment.python_stack_id, recorder::epoch()};
    }
    if (recorder::is_selected(kSelectAccess)) {
        write_accesses(scope, accesses, moment);
    }
}

Recorded leave_operator() {
    if (operator_depth > 0 && --operator_depth < kDeepestOperator && begun[operator_depth].args != nullptr) {
        Py_DECREF(begun[operator_depth].args);
        Py_DECREF(begun[operator_depth].func);
    }
    // Records of the end of this operator still belong to it.
    const std::uint8_t flags = recorder::pass_flags();
    if (operator_depth == 0) {
        recorder::set_current_operator(0);
        recorder::set_pass(recorder::Pass::kForward);
    }
    const bool is_recorded = operator_depth < kDeepestOperator && running[operator_depth].written;
    return {is_recorded, is_recorded && recorder::is_selected(kSelectAccess), flags};
}

void record_end(OperatorPlan& plan, std::uint8_t flags, const std::vector<Access>& accesses) {
    const RunningOperator& ending = running[operator_depth];
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    const bool has_stack = ending.epoch == recorder::epoch();
    const Moment moment{recorder::now_ns(), name_id_of(scope, plan),
                        has_stack ? ending.python_stack_id : stack_for_columns(scope), flags};
    write_accesses(scope, accesses, moment);
    if (recorder::is_selected(kSelectLaunch)) {
        recorder::append(scope, event_of(format::EventKind::kAtenEnd, ending.device, moment));
    }
}

void begin_operator(OperatorPlan& plan, PyObject* func, PyObject* args, PyObject* kwargs, recorder::Pass pass) {
    const Recorded recorded = enter_operator(plan, BegunOperator{func, args, nullptr, 0}, pass);
    if (operator_depth == 1 && __builtin_expect(watch::is_active(), 0)) {
        watch_operator_begins(watched_call(plan), plan.written, args, kwargs);
    }
    if (!recorded.is_recorded) {
        return;
    }
    std::vector<Access>& accesses = accesses_of_thread();
    const Py_ssize_t args_count = PyTuple_GET_SIZE(args);
    for (Py_ssize_t index = 0; index < args_count; ++index) {
        const auto position = static_cast<std::size_t>(index);
        const Use use = position < plan.inputs.size() ? plan.inputs[position] : Use::kNone;
        gather(PyTuple_GET_ITEM(args, index), use, recorded.accesses, accesses);
    }
    if (kwargs != Py_None && !plan.keyword_inputs.empty()) {
        PyObject* name = nullptr;
        PyObject* value = nullptr;
        Py_ssize_t place = 0;
        while (PyDict_Next(kwargs, &place, &name, &value) != 0) {
            gather(value, keyword_use(plan, name), recorded.accesses, accesses);
        }
    }
    const int device = accesses.empty() ? device_argument(kwargs) : device_of(accesses);
    if (device != kNotObserved) {
        record_beginning(plan, static_cast<format::Device>(device), accesses);
    }
}

void end_operator(OperatorPlan& plan, PyObject* result) {
    const std::uint64_t pinned = pinned_memory::take_new();
    if (pinned != 0 && is_tensor(result) && first_byte_of(result) == pinned) {
        pinned_memory::note_requested(pinned, bytes_of(result));
    }
    const Recorded recorded = leave_operator();
    if (operator_depth == 0 && __builtin_expect(watch::is_active(), 0)) {
        watch_operator_ends(watched_call(plan), plan.written, plan.outputs, result);
    }
    if (!recorded.is_recorded) {
        return;
    }
    std::vector<Access>& accesses = accesses_of_thread();
    if (recorded.accesses) {
        gather_results(plan, result, accesses);
    }
    record_end(plan, recorded.flags, accesses);
}

namespace {

PyObject* operator_begins(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "operator_begins(plan, func, args, kwargs, pass)");
        return nullptr;
    }
    OperatorPlan* const plan = plan_of(arguments[0]);
    if (plan == nullptr) {
        return nullptr;
    }
    begin_operator(*plan, arguments[1], arguments[2], arguments[3],
                   static_cast<recorder::Pass>(PyLong_AsLong(arguments[4])));
    Py_RETURN_NONE;
}

PyObject* running_operators(PyObject*, PyObject*) {
    const std::uint32_t count = std::min(operator_depth, kDeepestOperator);
    PyObject* const all = PyTuple_New(static_cast<Py_ssize_t>(count));
    for (std::uint32_t depth = 0; all != nullptr && depth < count; ++depth) {
        const BegunOperator& one = begun[depth];
        PyObject* const args =
            one.args != nullptr ? Py_NewRef(one.args) : boxed_arguments(one.values, one.values_count);
        PyObject* const each = args == nullptr ? nullptr : PyTuple_Pack(2, one.func, args);
        Py_XDECREF(args);
        if (each == nullptr) {
            Py_DECREF(all);
            return nullptr;
        }
        PyTuple_SET_ITEM(all, static_cast<Py_ssize_t>(depth), each);
    }
    return all;
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
    end_operator(*plan, arguments[1]);
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
    PyObject* written_positions = nullptr;
    PyObject* written_names = nullptr;
    int written_later = 0;
    unsigned int kept_keys = 0;
    if (PyArg_ParseTuple(arguments, "sO!O!O!O!O!pI", &name, &PyTuple_Type, &inputs, &PyDict_Type, &keywords,
                         &PyTuple_Type, &outputs, &PyTuple_Type, &written_positions, &PyTuple_Type, &written_names,
                         &written_later, &kept_keys) == 0) {
        return nullptr;
    }
    std::vector<Use> input_uses;
    std::vector<Use> output_uses;
    WrittenArguments written;
    written.come_later = written_later != 0;
    if (!read_written(written_positions, written_names, written) || !read_uses(inputs, input_uses) ||
        !read_uses(outputs, output_uses)) {
        return nullptr;
    }
    std::vector<KeywordUse> keyword_uses;
    int device_position = -1;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    Py_ssize_t place = 0;
    while (PyDict_Next(keywords, &place, &key, &value) != 0) {
        if (!PyUnicode_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "names of arguments are strings");
            return nullptr;
        }
        if (PyUnicode_CompareWithASCIIString(key, "device") == 0) {
            device_position = static_cast<int>(keyword_uses.size());
        }
        Py_INCREF(key);
        PyUnicode_InternInPlace(&key);  // kept for ever, as the plan is
        keyword_uses.push_back(KeywordUse{key, static_cast<Use>(PyLong_AsLong(value))});
    }
    OperatorPlan& plan = plans().emplace_back();
    plan.name = name;
    plan.inputs = std::move(input_uses);
    plan.keyword_inputs = std::move(keyword_uses);
    plan.outputs = std::move(output_uses);
    plan.kept_keys = kept_keys;
    plan.device_position = device_position;
    plan.written = std::move(written);
    return PyLong_FromSize_t(plans().size() - 1);
}

}  // namespace

PyMethodDef kOperatorMethods[] = {
    {"define_operator", define_operator, METH_VARARGS, "Takes an operator's plan; returns its number."},
    {"operator_begins", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&operator_begins)), METH_FASTCALL,
     "Records the start of an operator and what it reads and writes."},
    {"operator_ends", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&operator_ends)), METH_FASTCALL,
     "Records what an operator returned and its end."},
    {"running_operators", running_operators, METH_NOARGS,
     "The operators of the calling thread that run now, outermost first, each with its positional arguments."},
    {"set_tensor_access", set_tensor_access, METH_VARARGS, "Tells how to recognise and read tensors."},
    {"learn_tensor_layout", learn_tensor_layout, METH_VARARGS,
     "Finds out where torch keeps what of a tensor; false if that did not succeed."},
    {"learn_type_texts", learn_type_texts, METH_O,
     "Takes the texts of the dtypes of tensors: others of them need not be read through Python for that."},
    {"forget_tensor_layout", forget_tensor_layout, METH_NOARGS, "Lets tensors be read through Python."},
    {"tensor_memory", tensor_memory, METH_O, "What is read of a tensor without Python; None if it is not."},
    {"set_dispatch", set_dispatch, METH_VARARGS,
     "Tells how operators are called; false if they can only be dispatched in Python."},
    {"learn_lazy_keys", learn_lazy_keys, METH_VARARGS,
     "Takes the dispatch keys of what torch does lazily, and of those that some operators keep; false if torch cannot "
     "be told of them."},
    {"show_lazy_keys", show_lazy_keys, METH_O,
     "The calling thread takes part in lazy keys again, and in the kept ones that its caller takes part in; returns "
     "which of them it did not."},
    {"hide_lazy_keys", hide_lazy_keys, METH_O, "Ends that; takes what show_lazy_keys has returned."},
    {"hide_mode", hide_mode, METH_VARARGS, "Lets torch decide as if there were no mode where this one is alone."},
    {"dispatch_function", dispatch_function, METH_O, "The dispatch function of a mode."},
    {"dispatch_depth", dispatch_depth, METH_NOARGS, "How many dispatch modes the calling thread has."},
    {"teach_boxed_call", teach_boxed_call, METH_VARARGS,
     "Learns from the next call of a mode how torch hands operators over to it."},
    {"end_boxed_lessons", end_boxed_lessons, METH_NOARGS, "Whether boxed calls are understood."},
    {"dispatch_boxed", dispatch_boxed, METH_O, "Whether operators are dispatched before they come to Python."},
    {"set_operator_visitor", set_operator_visitor, METH_O, "Tells what is called after some operators, or None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
