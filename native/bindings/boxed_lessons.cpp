// How boxed calls are understood: by calls of a mode of ours, where everything is known beforehand.
//
// For the time of one call, the mode names another interpreter, whose functions are ours. Each of them notes its
// arguments, gives the mode its own interpreter back, and goes on to torch's own function. No other mode and no other
// thread comes there.
#include <dlfcn.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "boxed_calls.h"
#include "boxed_layout.h"
#include "dispatch_stack.h"
#include "loaded_library.h"
#include "tensor_layout.h"
#include "watch/memory_reader.h"

namespace msmemscope {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kProbes = 64;
constexpr std::size_t kSearchedListBytes = 64;
constexpr std::size_t kSearchedCallableBytes = 768;
constexpr std::size_t kLongestName = 64;
constexpr std::uint32_t kUnknownTag = ~0U;
// Where the name of an overload can lie, counted from the operator's own name. A C++ string is 32 bytes long, or 8 in
// libraries that keep to its old form.
constexpr std::size_t kOverloadPlaces[] = {32, 8};

struct InterpreterFunctions {
    const void* const* table;
};
struct Interpreter {
    const InterpreterFunctions* functions;
};

struct Expected {
    enum Kind : std::uint8_t { kAny, kNothing, kTensor, kTensors, kDevice };
    Kind kind;
    std::array<std::uint64_t, 2> numbers;
};
constexpr std::size_t kMostArguments = 8;

// All of it under the GIL.
struct Lesson {
    HeldMode* held = nullptr;
    std::string name;
    std::string overload;
    std::array<Expected, kMostArguments> arguments{};
    std::size_t arguments_count = 0;
};
Lesson lesson;
int lessons_taken = 0;
int lessons_learned = 0;
BoxedLayout learned{};
bool is_complete = false;
const void* const* own_table = nullptr;
const void* probe_table[kProbes];
InterpreterFunctions probe_functions{probe_table};
Interpreter probe_interpreter{&probe_functions};
Interpreter* own_interpreter = nullptr;
std::uint64_t last_handle[2] = {0, 0};

template <typename Value>
bool read(std::uint64_t address, Value& value) {
    return address != 0 && watch::copy_if_readable(&value, address, sizeof(value));
}

// Whether the text is there, with the zero at its end.
bool text_is_at(std::uint64_t address, const std::string& text) {
    char there[kLongestName + 1];
    const std::size_t bytes = text.size() + 1;
    return text.size() <= kLongestName && address != 0 && watch::copy_if_readable(there, address, bytes) &&
           std::memcmp(there, text.c_str(), bytes) == 0;
}

bool agree(std::uint32_t& known, std::uint32_t tag) {
    if (known == kUnknownTag) {
        known = tag;
    }
    return known == tag;
}

bool has_overload(std::uint64_t registered) {
    std::size_t places[2];
    std::size_t count = 0;
    for (const std::size_t place : kOverloadPlaces) {
        std::uint64_t text = 0;
        if (read(registered + place, text) && text_is_at(text, lesson.overload)) {
            places[count++] = place;
        }
    }
    if (learned.overload == 0 && count == 1) {
        learned.overload = places[0];
    }
    for (std::size_t index = 0; index < count; ++index) {
        if (learned.overload == 0 || places[index] == learned.overload) {
            return true;
        }
    }
    return false;
}

// A list of two tensors.
bool is_list(const BoxedValue& value, const std::array<std::uint64_t, 2>& tensors) {
    std::size_t found = 0;
    int places = 0;
    for (std::size_t place = kWord; place < kSearchedListBytes; place += kWord) {
        std::uint64_t bounds[2] = {0, 0};
        std::array<BoxedValue, 2> elements{};
        if (read(value.payload + place, bounds) && bounds[1] - bounds[0] == sizeof(elements) &&
            read(bounds[0], elements) && elements[0].payload == tensors[0] && elements[1].payload == tensors[1] &&
            agree(learned.tensor_tag, elements[0].tag) && agree(learned.tensor_tag, elements[1].tag)) {
            found = place;
            ++places;
        }
    }
    if (learned.elements == 0) {
        learned.elements = found;
    }
    return places == 1 && learned.elements == found && agree(learned.list_tag, value.tag);
}

bool is_as_expected(const BoxedValue& value, const Expected& expected) {
    switch (expected.kind) {
        case Expected::kAny:
            return true;
        case Expected::kNothing:
            return agree(learned.nothing_tag, value.tag);
        case Expected::kTensor:
            return value.payload == expected.numbers[0] && agree(learned.tensor_tag, value.tag);
        case Expected::kTensors:
            return is_list(value, expected.numbers);
        case Expected::kDevice:
            return device_code_of(value) == expected.numbers[0] && agree(learned.device_tag, value.tag);
    }
    return false;
}

// Whether the call is a dispatch of the operator that is expected. Learns from it if so.
bool learn_from_call(std::size_t place, std::uint64_t handle, std::uint64_t stack) {
    std::uint64_t name = 0;
    std::uint64_t bounds[2] = {0, 0};
    std::array<BoxedValue, kMostArguments> values{};
    if (!read(handle, last_handle) || !read(last_handle[0], name) || !text_is_at(name, lesson.name) ||
        !has_overload(last_handle[0]) || !read(stack, bounds) ||
        bounds[1] - bounds[0] != lesson.arguments_count * sizeof(BoxedValue) ||
        !watch::copy_if_readable(values.data(), bounds[0], bounds[1] - bounds[0])) {
        return false;
    }
    for (std::size_t index = 0; index < lesson.arguments_count; ++index) {
        if (!is_as_expected(values[index], lesson.arguments[index])) {
            return false;
        }
    }
    if (learned.dispatch_place == 0) {
        learned.dispatch_place = place;
    }
    return learned.dispatch_place == place;
}

using AnyFunction = std::uint64_t (*)(const void*, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                                      std::uint64_t);

template <std::size_t Place>
std::uint64_t probe(const void*, std::uint64_t first, std::uint64_t second, std::uint64_t third, std::uint64_t fourth,
                    std::uint64_t fifth) {
    std::exchange(lesson.held, nullptr)->interpreter = own_interpreter;
    if (learn_from_call(Place, first, second)) {
        ++lessons_learned;
    }
    return reinterpret_cast<AnyFunction>(const_cast<void*>(own_table[Place]))(own_interpreter->functions, first, second,
                                                                              third, fourth, fifth);
}

template <std::size_t... Places>
void fill_probes(std::index_sequence<Places...>) {
    ((probe_table[Places] = reinterpret_cast<const void*>(&probe<Places>)), ...);
}

// Functions of a table that lies in front of other data: as many as are code of this library.
std::size_t count_functions(const void* const* functions, const char* library) {
    std::size_t count = 0;
    std::uint64_t function = 0;
    Dl_info info{};
    while (read(reinterpret_cast<std::uint64_t>(functions + count), function) && function != 0 &&
           dladdr(reinterpret_cast<const void*>(function), &info) != 0 &&
           std::strstr(info.dli_fname, library) != nullptr) {
        ++count;
    }
    return count;
}

// The interpreter that modes of this process name. False if its functions cannot be followed.
bool find_interpreter() {
    using OwnInterpreter = Interpreter* (*)();
    const auto ask = reinterpret_cast<OwnInterpreter>(find_in_library("libtorch_python.so", "_Z16getPyInterpreterv"));
    if (ask == nullptr) {
        return false;
    }
    own_interpreter = ask();
    own_table = own_interpreter->functions->table;
    learned.functions = reinterpret_cast<const void* const**>(&own_interpreter->functions);
    learned.functions_count = count_functions(own_table, "libtorch_python.so");
    fill_probes(std::make_index_sequence<kProbes>());
    return learned.functions_count > 0 && learned.functions_count <= kProbes;
}

HeldMode* top_mode(PyObject* mode) {
    if (!find_mode_functions() || count_modes() < 1) {
        return nullptr;
    }
    HeldMode* const held = mode_at(count_modes() - 1);
    return held->mode == mode && held->interpreter == own_interpreter ? held : nullptr;
}

bool read_expected(PyObject* told, Expected& expected) {
    if (told == Py_None) {
        expected.kind = Expected::kNothing;
    } else if (PyBool_Check(told)) {
        expected.kind = Expected::kAny;
    } else if (PyLong_Check(told)) {
        expected.kind = Expected::kTensor;
        expected.numbers[0] = PyLong_AsUnsignedLongLong(told);
    } else if (PyTuple_Check(told) && PyTuple_GET_SIZE(told) == 2) {
        expected.kind = Expected::kTensors;
        expected.numbers[0] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(told, 0));
        expected.numbers[1] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(told, 1));
    } else if (PyTuple_Check(told) && PyTuple_GET_SIZE(told) == 1) {
        TensorMemory memory{};
        const std::uint64_t tensor = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(told, 0));
        const bool is_read =
            PyErr_Occurred() == nullptr && read_tensor_at(reinterpret_cast<const void*>(tensor), memory);
        expected.kind = Expected::kDevice;
        expected.numbers[0] = is_read ? memory.device_code : UINT64_MAX;
    } else {
        PyErr_SetString(PyExc_TypeError, "an argument is None, a bool, an int, or a tuple of one or two of them");
    }
    return PyErr_Occurred() == nullptr;
}

bool is_code_of_torch(std::uint64_t address) {
    Dl_info info{};
    return dladdr(reinterpret_cast<const void*>(address), &info) != 0 &&
           std::strstr(info.dli_fname, "libtorch_cpu.so") != nullptr;
}

// For each operator torch keeps a function that calls it boxed (torch/csrc/jit/runtime/register_c10_ops.cpp). It lies
// behind the operator's handle, as four words. The first two are what it was made with: a copy of the handle, or where
// such a copy lies. The third says how it is managed, and the fourth how it is called. Its arguments decide on the
// operator, so any handle will do.
bool find_call(const std::uint64_t (&handle)[2]) {
    using FindOperator = std::shared_ptr<const void> (*)(std::uint64_t name);
    const auto find = reinterpret_cast<FindOperator>(
        find_in_library("libtorch_cpu.so", "_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE"));
    // An operator begins with its name.
    const std::shared_ptr<const void> callable = find == nullptr ? nullptr : find(handle[0]);
    const auto address = reinterpret_cast<std::uint64_t>(callable.get());
    for (std::size_t place = 0; address != 0 && place < kSearchedCallableBytes; place += kWord) {
        std::array<std::uint64_t, 6> words{};
        if (!read(address + place, words) || words[0] != handle[0] || words[1] != handle[1] ||
            !is_code_of_torch(words[4]) || !is_code_of_torch(words[5])) {
            continue;
        }
        std::uint64_t apart[2] = {0, 0};
        const bool is_copy = words[2] == handle[0] && words[3] == handle[1];
        learned.handle_lies_apart = !is_copy && read(words[2], apart) && apart[0] == handle[0] && apart[1] == handle[1];
        learned.call = reinterpret_cast<CallBoxed>(words[5]);
        return is_copy || learned.handle_lies_apart;
    }
    return false;
}

bool tags_differ() {
    const std::uint32_t tags[] = {learned.nothing_tag, learned.tensor_tag, learned.list_tag, learned.device_tag};
    for (std::size_t index = 0; index < 4; ++index) {
        if (tags[index] == kUnknownTag) {
            return false;
        }
        for (std::size_t other = 0; other < index; ++other) {
            if (tags[index] == tags[other]) {
                return false;
            }
        }
    }
    return true;
}

void forget() {
    learned = BoxedLayout{};
    learned.nothing_tag = learned.tensor_tag = learned.list_tag = learned.device_tag = kUnknownTag;
    lessons_taken = 0;
    lessons_learned = 0;
}

}  // namespace

const BoxedLayout* boxed_layout() { return is_complete ? &learned : nullptr; }

PyObject* teach_boxed_call(PyObject*, PyObject* arguments) {
    PyObject* mode = nullptr;
    const char* name = nullptr;
    const char* overload = nullptr;
    PyObject* told = nullptr;
    if (PyArg_ParseTuple(arguments, "OssO!", &mode, &name, &overload, &PyTuple_Type, &told) == 0) {
        return nullptr;
    }
    if (is_complete) {  // for good
        Py_RETURN_FALSE;
    }
    if (lessons_taken == 0) {
        forget();
        if (!find_interpreter()) {
            Py_RETURN_FALSE;
        }
    }
    HeldMode* const held = top_mode(mode);
    const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(told));
    if (held == nullptr || count > kMostArguments) {
        Py_RETURN_FALSE;
    }
    lesson = Lesson{held, name, overload, {}, count};
    for (std::size_t index = 0; index < count; ++index) {
        if (!read_expected(PyTuple_GET_ITEM(told, static_cast<Py_ssize_t>(index)), lesson.arguments[index])) {
            return nullptr;
        }
    }
    ++lessons_taken;
    held->interpreter = &probe_interpreter;
    Py_RETURN_TRUE;
}

PyObject* end_boxed_lessons(PyObject*, PyObject*) {
    if (lesson.held != nullptr) {  // nothing came to the mode
        std::exchange(lesson.held, nullptr)->interpreter = own_interpreter;
    }
    if (lessons_taken > 0 && lessons_learned == lessons_taken && learned.overload != 0 && learned.elements != 0 &&
        tags_differ()) {
        is_complete = find_call(last_handle);
    }
    lessons_taken = 0;
    return PyBool_FromLong(is_complete ? 1 : 0);
}

}  // namespace msmemscope
