#include "function_trace.h"

#include <frameobject.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "code_table.h"
#include "core/writer/fast_clock.h"
#include "core/writer/recorder.h"
#include "python_frames.h"

namespace msmemscope {
namespace {

// A call that has not returned. One of the ids is set; none for functions of our own, which are not written.
struct OpenCall {
    std::uint64_t start_ns;  // 0: it was running before the trace began
    std::uint32_t name_id;
    std::uint32_t code_id;
};

struct ThreadCalls {
    FastClock clock{};
    std::vector<OpenCall> open;
    // Depth of calls below a function that is left out with all that it calls; 0 outside.
    std::uint32_t suppressed = 0;
    std::uint64_t epoch = 0;
};

// Identity of a C function: where it is defined, and for which type.
struct BuiltinKey {
    const PyMethodDef* method;
    const void* owner;
    bool operator==(const BuiltinKey& other) const { return method == other.method && owner == other.owner; }
};
struct BuiltinHash {
    std::size_t operator()(const BuiltinKey& key) const {
        return std::hash<const void*>()(key.method) * 31 + std::hash<const void*>()(key.owner);
    }
};

// A Python function that was called before.
struct KnownCode {
    PyCodeObject* code;
    std::uint32_t id;
    bool is_left_out;
};

// All of it is used under the GIL only.
struct Trace {
    // Functions by the address of their code: the one that was called last of those that share a place. Whose code is
    // destroyed leaves it.
    static constexpr std::size_t kKnownCodes = 1UL << 12U;
    KnownCode known_codes[kKnownCodes] = {};
    // See recorder.h; as long as a trace was never started, null.
    const std::atomic<std::uint64_t>* recorder_epoch = nullptr;
    bool on = false;
    // Calls are written also while events are not collected: the program has asked for this trace by itself.
    bool unconditional = false;
    std::uint64_t epoch = 0;
    // Functions of our own that work for the program's calls. Neither they nor their callees are the program's.
    std::vector<PyCodeObject*> left_out;
    // The folder of our own files, with a slash at the end. Other functions of ours are passed over, but not their
    // callees.
    std::string package;
    PyCodeObject* module_call_code = nullptr;
    std::unordered_map<BuiltinKey, std::uint32_t, BuiltinHash> builtin_names;
    std::unordered_map<PyTypeObject*, std::uint32_t> module_names;
    std::vector<ThreadCalls*> threads;
};

Trace* const the_trace = new Trace();  // never destroyed: daemon threads outlive exit

Trace& trace() { return *the_trace; }

__thread ThreadCalls* calls_of_thread = nullptr;

void forget_names_of_other_epochs() {
    if (trace().epoch != recorder::epoch()) {
        trace().builtin_names.clear();
        trace().module_names.clear();
        std::memset(trace().known_codes, 0, sizeof(trace().known_codes));
        trace().epoch = recorder::epoch();
    }
}

// For a thread that is new here, or whose ids are those of a parent, which mean nothing in a forked child.
__attribute__((noinline)) ThreadCalls& calls_anew() {
    if (calls_of_thread == nullptr) {
        calls_of_thread = new ThreadCalls();  // in Trace::threads for as long as the process lives
        calls_of_thread->open.reserve(256);
        trace().threads.push_back(calls_of_thread);
    }
    static_cast<bool>(RecordingScope(false));  // a child makes itself ready
    if (calls_of_thread->epoch != recorder::epoch()) {
        calls_of_thread->open.clear();
        calls_of_thread->epoch = recorder::epoch();
    }
    forget_names_of_other_epochs();
    return *calls_of_thread;
}

ThreadCalls& calls() {
    ThreadCalls* const thread = calls_of_thread;
    const std::atomic<std::uint64_t>* const epoch = trace().recorder_epoch;
    const bool is_known = thread != nullptr && epoch != nullptr && thread->epoch != 0 &&
                          thread->epoch == epoch->load(std::memory_order_relaxed);
    return __builtin_expect(is_known, 1) ? *thread : calls_anew();
}

std::uint32_t intern(const std::string& text) {
    const RecordingScope scope(false);
    return scope ? recorder::intern_string(scope, text.data(), text.size()) : 0;
}

// As str() shows a C function, without the address, which would make every object's methods different.
std::uint32_t builtin_name(PyObject* function) {
    if (!PyCFunction_Check(function)) {
        return intern(std::string("<built-in ") + Py_TYPE(function)->tp_name + ">");
    }
    auto* const builtin = reinterpret_cast<PyCFunctionObject*>(function);
    PyObject* const self = builtin->m_self;
    const bool of_module = self == nullptr || PyModule_Check(self);
    const BuiltinKey key{builtin->m_ml, of_module ? nullptr : static_cast<const void*>(Py_TYPE(self))};
    const auto known = trace().builtin_names.find(key);
    if (known != trace().builtin_names.end()) {
        return known->second;
    }
    std::string text = of_module ? "<built-in function " : "<built-in method ";
    text += builtin->m_ml->ml_name;
    if (!of_module) {
        text += " of ";
        text += PyType_Check(self) ? "type" : Py_TYPE(self)->tp_name;
        text += " object";
    }
    text += ">";
    const std::uint32_t id = intern(text);
    trace().builtin_names.emplace(key, id);
    return id;
}

// "nn.Module: Linear" for the call operator of torch modules; 0 for any other function.
std::uint32_t module_name(PyFrameObject* frame, PyCodeObject* code) {
    if (code != trace().module_call_code) {
        return 0;
    }
    PyObject* const self = first_local_of_frame(frame);
    if (self == nullptr) {
        return 0;
    }
    PyTypeObject* const type = Py_TYPE(self);
    const auto known = trace().module_names.find(type);
    if (known != trace().module_names.end()) {
        return known->second;
    }
    const char* const dot = std::strrchr(type->tp_name, '.');
    const std::uint32_t id = intern(std::string("nn.Module: ") + (dot == nullptr ? type->tp_name : dot + 1));
    trace().module_names.emplace(type, id);
    Py_INCREF(type);  // so that its address stays its name
    return id;
}

void write_call(const OpenCall& call, std::uint64_t end_ns) {
    if (call.name_id != 0 || call.code_id != 0) {
        recorder::append_call(FunctionCall{call.start_ns, end_ns, call.name_id, call.code_id}, trace().unconditional);
    }
}

bool is_own(PyCodeObject* code) {
    PyObject* const file = code->co_filename;
    const std::string& package = trace().package;
    return !package.empty() && PyUnicode_IS_COMPACT_ASCII(file) &&
           static_cast<std::size_t>(PyUnicode_GET_LENGTH(file)) > package.size() &&
           std::memcmp(PyUnicode_1BYTE_DATA(file), package.data(), package.size()) == 0;
}

bool is_left_out(const PyCodeObject* code) {
    const std::vector<PyCodeObject*>& codes = trace().left_out;
    return std::find(codes.begin(), codes.end(), code) != codes.end();
}

KnownCode& place_of(const PyCodeObject* code) {
    const auto address = reinterpret_cast<std::uintptr_t>(code);
    return trace().known_codes[(address >> 4U ^ address >> 16U) % Trace::kKnownCodes];
}

__attribute__((noinline)) void look_up(PyCodeObject* code) {
    KnownCode found{code, 0, is_left_out(code)};
    if (!found.is_left_out && !is_own(code)) {
        const RecordingScope scope(false);
        if (!scope) {
            return;  // in a signal handler that interrupted us: its calls are not written
        }
        found.id = code_id_of(scope, code);
    }
    place_of(code) = found;
}

// The code as it is written in records of a call of a function; an id of 0 says nothing.
KnownCode known(PyCodeObject* code) {
    const KnownCode& place = place_of(code);
    if (__builtin_expect(place.code != code, 0)) {
        look_up(code);
    }
    return place.code == code ? place : KnownCode{code, 0, false};
}

// Written where it is to stay: put together elsewhere and copied, it would be read before it has left the processor's
// store buffer.
void open_call(ThreadCalls& thread, std::uint32_t name_id, std::uint32_t code_id) {
    thread.open.emplace_back();
    OpenCall& call = thread.open.back();
    call.name_id = name_id;
    call.code_id = code_id;
    call.start_ns = thread.clock.now_ns();
}

void python_call_begins(PyFrameObject* frame) {
    ThreadCalls& thread = calls();
    if (thread.suppressed > 0) {
        ++thread.suppressed;
        return;
    }
    const KnownCode called = known(code_of_frame(frame));
    if (called.is_left_out) {
        ++thread.suppressed;
        return;
    }
    const std::uint32_t name_id = module_name(frame, called.code);
    open_call(thread, name_id, name_id == 0 ? called.id : 0);
}

void call_ends(PyFrameObject* frame, bool of_python) {
    ThreadCalls& thread = calls();
    if (thread.suppressed > 0) {
        --thread.suppressed;
        return;
    }
    const std::uint64_t end_ns = thread.clock.now_ns();
    if (!thread.open.empty()) {
        const OpenCall call = thread.open.back();
        thread.open.pop_back();
        write_call(call, end_ns);
    } else if (of_python) {
        // Running since before the trace began, on a thread whose stack was not read then.
        const KnownCode called = known(code_of_frame(frame));
        const std::uint32_t name_id = module_name(frame, called.code);
        write_call(OpenCall{0, name_id, name_id == 0 ? called.id : 0}, end_ns);
    }
}

int profile(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
    switch (what) {
        case PyTrace_CALL:
            python_call_begins(frame);
            break;
        case PyTrace_RETURN:
            call_ends(frame, true);
            break;
        case PyTrace_C_CALL: {
            ThreadCalls& thread = calls();
            if (thread.suppressed > 0) {
                ++thread.suppressed;
            } else {
                open_call(thread, builtin_name(argument), 0);
            }
            break;
        }
        case PyTrace_C_RETURN:
        case PyTrace_C_EXCEPTION:
            call_ends(frame, false);
            break;
        default:
            break;
    }
    return 0;
}

// Installs the profile function in every thread that exists, or removes it where it is still ours. The program may have
// put a profiler of its own in its place.
void profile_all_threads(bool on) {
#if PY_VERSION_HEX >= 0x030C0000
    if (on) {
        PyEval_SetProfileAllThreads(profile, nullptr);
    } else if (PyThreadState_Get()->c_profilefunc == profile) {
        PyEval_SetProfileAllThreads(nullptr, nullptr);
    }
#else
    PyThreadState* const own = PyThreadState_Get();
    for (PyThreadState* thread = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own)); thread != nullptr;
         thread = PyThreadState_Next(thread)) {
        if (on || thread->c_profilefunc == profile) {
            _PyEval_SetProfile(thread, on ? profile : nullptr, nullptr);
        }
    }
#endif
}

// The calls that this thread was in before the trace began, outermost first.
void open_running_calls() {
    ThreadCalls& thread = calls();
    PythonFrameCursor cursor = innermost_python_frame();
    std::vector<PyCodeObject*> running;
    RawPythonFrame raw = {};
    while (read_python_frames(&cursor, &raw, 1) == 1) {
        running.push_back(raw.code);
    }
    thread.open.clear();
    thread.suppressed = 0;
    for (auto code = running.rbegin(); code != running.rend(); ++code) {
        const KnownCode called = known(*code);
        if (thread.suppressed > 0 || called.is_left_out) {
            ++thread.suppressed;
            continue;
        }
        thread.open.push_back(OpenCall{0, 0, called.id});
    }
}

void write_open_calls() {
    for (ThreadCalls* thread : trace().threads) {
        if (thread->epoch == recorder::epoch()) {
            for (auto call = thread->open.rbegin(); call != thread->open.rend(); ++call) {
                write_call(*call, 0);
            }
        }
        thread->open.clear();
    }
}

PyObject* describe_program(PyObject*, PyObject* arguments) {
    PyObject* left_out = nullptr;
    PyObject* module_call = nullptr;
    const char* package = nullptr;
    if (PyArg_ParseTuple(arguments, "O!Os", &PyTuple_Type, &left_out, &module_call, &package) == 0) {
        return nullptr;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(left_out); ++index) {
        PyObject* const code = PyTuple_GET_ITEM(left_out, index);
        if (PyCode_Check(code) && !is_left_out(reinterpret_cast<PyCodeObject*>(code))) {
            Py_INCREF(code);  // never given back: the profile function compares with it at any time
            trace().left_out.push_back(reinterpret_cast<PyCodeObject*>(code));
        }
    }
    if (PyCode_Check(module_call)) {
        Py_INCREF(module_call);  // likewise
        trace().module_call_code = reinterpret_cast<PyCodeObject*>(module_call);
    }
    trace().package = package;
    std::memset(trace().known_codes, 0, sizeof(trace().known_codes));  // judged by the above
    Py_RETURN_NONE;
}

PyObject* start_function_trace(PyObject*, PyObject*) {
    if (!trace().on) {
        trace().on = true;
        trace().recorder_epoch = recorder::epoch_place();
        forget_names_of_other_epochs();
        open_running_calls();
        profile_all_threads(true);
    }
    Py_RETURN_NONE;
}

PyObject* write_calls_always(PyObject*, PyObject* wanted) {
    const int always = PyObject_IsTrue(wanted);
    if (always < 0) {
        return nullptr;
    }
    if (always == 0 && trace().unconditional && !recorder::is_selected(kSelectTraceback)) {
        write_open_calls();  // their ends will not be written any more
    }
    trace().unconditional = always != 0;
    Py_RETURN_NONE;
}

PyObject* stop_function_trace(PyObject*, PyObject*) {
    if (trace().on) {
        profile_all_threads(false);
        trace().on = false;
        write_open_calls();
        for (ThreadCalls* thread : trace().threads) {
            thread->suppressed = 0;
        }
    }
    Py_RETURN_NONE;
}

// Whoever calls it has decided that the call is to be written.
PyObject* record_function(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 2 || !PyUnicode_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "record_function(name: str, start_ns: int)");
        return nullptr;
    }
    const unsigned long long start_ns = PyLong_AsUnsignedLongLong(arguments[1]);
    if (start_ns == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const RecordingScope scope(true);
    if (scope) {
        Event event{format::EventKind::kFunctionCall};
        event.name_id = string_id_of(scope, arguments[0]);
        event.timestamp_ns = start_ns;
        event.extra = calls().clock.now_ns();
        recorder::append(scope, event);
    }
    Py_RETURN_NONE;
}

PyObject* function_trace_is_on(PyObject*, PyObject*) { return PyBool_FromLong(trace().on ? 1 : 0); }

PyObject* trace_this_thread(PyObject*, PyObject* arguments) {
    PyObject* frame = nullptr;
    PyObject* event = nullptr;
    PyObject* argument = nullptr;
    if (PyArg_ParseTuple(arguments, "O!UO", &PyFrame_Type, &frame, &event, &argument) == 0) {
        return nullptr;
    }
    if (trace().on) {
        PyEval_SetProfile(profile, nullptr);
        if (PyUnicode_CompareWithASCIIString(event, "call") == 0) {
            python_call_begins(reinterpret_cast<PyFrameObject*>(frame));
        }
    } else {
        PyEval_SetProfile(nullptr, nullptr);
    }
    Py_RETURN_NONE;
}

}  // namespace

void forget_traced_code(const PyCodeObject* code) noexcept {
    KnownCode& place = place_of(code);
    if (place.code == code) {
        place.code = nullptr;
    }
}

PyMethodDef kFunctionTraceMethods[] = {
    {"describe_program", describe_program, METH_VARARGS, "Tells the trace which functions are not the program's."},
    {"start_function_trace", start_function_trace, METH_NOARGS, "Traces every call of every thread."},
    {"write_calls_always", write_calls_always, METH_O, "Whether calls are written also while nothing is collected."},
    {"stop_function_trace", stop_function_trace, METH_NOARGS, "Ends the trace; calls still open are written as such."},
    {"function_trace_is_on", function_trace_is_on, METH_NOARGS, "Whether calls are being traced."},
    {"trace_this_thread", trace_this_thread, METH_VARARGS, "A profile function that puts the native one in its place."},
    {"record_function", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(record_function)), METH_FASTCALL,
     "Writes a call of this thread, by its name, from a moment (CLOCK_REALTIME, ns) to now."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
