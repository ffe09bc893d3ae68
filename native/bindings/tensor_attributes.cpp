#include "tensor_attributes.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <iterator>

#include "code_table.h"
#include "core/writer/recorder.h"
#include "thread_state.h"

namespace msmemscope {
namespace {

// Attribute ids by torch's own numbers, the latest of each place.
struct KnownAttribute {
    std::uint64_t epoch;
    std::uint32_t id;
    std::uint16_t type_code;
    std::uint16_t dimensions;
    std::int64_t sizes[5];
};
constexpr std::size_t kKnownAttributes = 256;
constexpr std::uint32_t kMostKnownDimensions = 5;
struct KnownAttributes {
    KnownAttribute of_hash[kKnownAttributes]{};
};

// Under the GIL only.
PyObject* attribute_numbers = nullptr;  // (dtype, shape) -> attribute id, of attribute_epoch
std::uint64_t attribute_epoch = 0;

// Texts of dtypes by torch's own numbers, as Python has them; each is kept for ever.
constexpr std::size_t kTypeTexts = 256;
std::atomic<const char*> type_texts[kTypeTexts] = {};

std::uint32_t intern_attributes(PyObject* dtype, PyObject* shape) {
    const RecordingScope scope(false);
    if (!scope) {
        return 0;
    }
    const format::Attribute pairs[] = {
        {format::AttributeKey::kDtype, format::ValueKind::kString, 0, string_id_of(scope, dtype)},
        {format::AttributeKey::kShape, format::ValueKind::kString, 0, string_id_of(scope, shape)},
    };
    return recorder::intern_attributes(scope, pairs, std::size(pairs));
}

// As Python has it: torch.Size([2, 3]).
std::uint32_t intern_shape(const RecordingScope& scope, const TensorMemory& memory) {
    constexpr std::size_t kLongestNumber = 22;  // with what separates it
    char text[16 + kMostDimensions * kLongestNumber] = "torch.Size([";
    char* end = text + std::strlen(text);
    for (std::uint32_t place = 0; place < memory.dimensions; ++place) {
        if (place > 0) {
            *end++ = ',';
            *end++ = ' ';
        }
        end = std::to_chars(end, text + sizeof(text), memory.sizes[place]).ptr;
    }
    *end++ = ']';
    *end++ = ')';
    return recorder::intern_string(scope, text, static_cast<std::size_t>(end - text));
}

}  // namespace

bool attribute_of(const TensorMemory& memory, std::uint32_t& id) {
    std::uint64_t hash = memory.type_code + 31U * memory.dimensions;
    for (std::uint32_t place = 0; place < memory.dimensions; ++place) {
        hash = (hash ^ static_cast<std::uint64_t>(memory.sizes[place])) * 0x9E3779B97F4A7C15ULL;
    }
    KnownAttribute& known = state_of_thread<KnownAttributes>().of_hash[hash >> 32U & (kKnownAttributes - 1)];
    if (known.id != 0 && known.epoch == recorder::epoch() && known.type_code == memory.type_code &&
        known.dimensions == memory.dimensions && memory.dimensions <= kMostKnownDimensions &&
        std::equal(memory.sizes, memory.sizes + memory.dimensions, known.sizes)) {
        id = known.id;
        return true;
    }
    const char* const type_text =
        memory.type_code < kTypeTexts ? type_texts[memory.type_code].load(std::memory_order_acquire) : nullptr;
    if (type_text == nullptr) {
        return false;
    }
    const RecordingScope scope(false);
    if (!scope) {
        id = 0;
        return true;
    }
    const format::Attribute pairs[] = {
        {format::AttributeKey::kDtype, format::ValueKind::kString, 0,
         recorder::intern_string(scope, type_text, std::strlen(type_text))},
        {format::AttributeKey::kShape, format::ValueKind::kString, 0, intern_shape(scope, memory)},
    };
    id = recorder::intern_attributes(scope, pairs, std::size(pairs));
    if (memory.dimensions <= kMostKnownDimensions) {
        known.epoch = recorder::epoch();
        known.id = id;
        known.type_code = memory.type_code;
        known.dimensions = static_cast<std::uint16_t>(memory.dimensions);
        std::copy(memory.sizes, memory.sizes + memory.dimensions, known.sizes);
    }
    return true;
}

std::uint32_t attribute_id(PyObject* dtype, PyObject* shape) {
    if (attribute_numbers == nullptr) {
        attribute_numbers = PyDict_New();
        if (attribute_numbers == nullptr) {
            return 0;
        }
    }
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
        PyObject* dtype_text = PyObject_Str(dtype);
        PyObject* shape_text = dtype_text == nullptr ? nullptr : PyObject_Str(shape);
        if (shape_text != nullptr) {
            id = intern_attributes(dtype_text, shape_text);
            PyObject* number = PyLong_FromUnsignedLong(id);
            if (number != nullptr) {
                PyDict_SetItem(attribute_numbers, key, number);
                Py_DECREF(number);
            }
        }
        Py_XDECREF(dtype_text);
        Py_XDECREF(shape_text);
    }
    Py_DECREF(key);
    return id;
}

void learn_type_text(std::uint16_t type_code, PyObject* dtype) {
    if (type_code >= kTypeTexts || type_texts[type_code].load(std::memory_order_relaxed) != nullptr) {
        return;
    }
    PyObject* const text = PyObject_Str(dtype);
    const char* const characters = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
    if (characters != nullptr) {
        type_texts[type_code].store(strdup(characters), std::memory_order_release);
    }
    Py_XDECREF(text);
}

PyObject* learn_type_texts(PyObject*, PyObject* tensors) {
    if (!PyTuple_Check(tensors)) {
        PyErr_SetString(PyExc_TypeError, "learn_type_texts(a tuple)");
        return nullptr;
    }
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(tensors); ++place) {
        PyObject* const tensor = PyTuple_GET_ITEM(tensors, place);
        PyObject* const dtype = PyObject_GetAttrString(tensor, "dtype");
        if (dtype == nullptr) {
            return nullptr;
        }
        if (TensorMemory memory{}; read_tensor(tensor, memory)) {
            learn_type_text(memory.type_code, dtype);
        }
        Py_DECREF(dtype);
        if (PyErr_Occurred() != nullptr) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

}  // namespace msmemscope
