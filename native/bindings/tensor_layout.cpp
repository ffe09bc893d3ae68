#include "tensor_layout.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

namespace msmemscope {
namespace {

// Shorter than the tensors of every torch that is observed; their storages are longer, too.
constexpr std::size_t kSearchedBytes = 184;
constexpr std::size_t kSearchedStorageBytes = 40;
constexpr std::size_t kWord = sizeof(std::uint64_t);

// torch keeps sizes and strides of few dimensions behind their number, side by side, then these fields. In their place
// is the address of both where there are more dimensions.
constexpr std::uint32_t kInlineDimensions = 5;
constexpr std::size_t kSizes = kWord;
constexpr std::size_t kStrides = kSizes + kInlineDimensions * kWord;
constexpr std::size_t kOffset = kStrides + kInlineDimensions * kWord;
constexpr std::size_t kElements = kOffset + kWord;
constexpr std::size_t kType = kElements + kWord;
constexpr std::size_t kDevice = kType + sizeof(std::uint16_t);
constexpr std::size_t kHasDevice = kDevice + sizeof(std::uint16_t);
constexpr std::size_t kShapeBytes = kHasDevice + 1;

constexpr std::size_t kMostClasses = 4;
constexpr int kMostLessons = 64;
constexpr std::size_t kTypeCodes = 256;

struct Layout {
    std::size_t handle;           // in the Python object: address of the tensor
    std::size_t storage;          // in the tensor: address of its storage
    std::size_t shape;            // in the tensor: number of dimensions, and what follows it
    std::size_t keys;             // in the tensor: its dispatch keys
    std::size_t storage_address;  // in the storage
};

// In every torch that was seen, the layout is the same in all of a process. Once it is known it stays, and any thread
// reads it.
Layout layout{};
std::atomic<bool> is_known{false};
std::uint64_t own_dispatch_key = 0;
PyTypeObject* read_classes[kMostClasses] = {};             // of Python
std::atomic<const void*> plain_tables[kMostClasses] = {};  // of virtual functions: classes of C++
std::atomic<std::uint8_t> item_bytes_of[kTypeCodes] = {};
int lessons_left = 0;

template <typename Value>
Value read_at(const char* base, std::size_t place) {
    Value value;
    std::memcpy(&value, base + place, sizeof(value));
    return value;
}

bool is_read_class(PyTypeObject* type) {
    for (PyTypeObject* const known : read_classes) {
        if (known == type) {
            return true;
        }
    }
    return false;
}

bool is_plain(const void* table) {
    for (const std::atomic<const void*>& known : plain_tables) {
        if (known.load(std::memory_order_acquire) == table) {
            return table != nullptr;
        }
    }
    return false;
}

struct Shape {
    const std::int64_t* sizes;
    const std::int64_t* strides;
};

Shape shape_at(const char* place, std::uint64_t dimensions) {
    if (dimensions > kInlineDimensions) {
        const auto* const sizes = read_at<const std::int64_t*>(place, kSizes);
        return {sizes, sizes + dimensions};
    }
    return {reinterpret_cast<const std::int64_t*>(place + kSizes),
            reinterpret_cast<const std::int64_t*>(place + kStrides)};
}

// All but the bytes of an element. False if it has no storage, or dimensions that lie elsewhere.
bool read_fields(const char* tensor, TensorMemory& memory) {
    const char* const storage = read_at<const char*>(tensor, layout.storage);
    const char* const shape = tensor + layout.shape;
    const auto dimensions = read_at<std::uint64_t>(shape, 0);
    if (storage == nullptr || dimensions > kMostDimensions || read_at<std::uint8_t>(shape, kHasDevice) != 1) {
        return false;
    }
    memory.dimensions = static_cast<std::uint32_t>(dimensions);
    memory.sizes = shape_at(shape, dimensions).sizes;
    memory.strides = shape_at(shape, dimensions).strides;
    memory.offset = read_at<std::int64_t>(shape, kOffset);
    memory.elements = read_at<std::int64_t>(shape, kElements);
    memory.type_code = read_at<std::uint16_t>(shape, kType);
    memory.device_code = read_at<std::uint16_t>(shape, kDevice);
    // Sizes that are only symbols are kept as negative numbers.
    for (std::uint32_t place = 0; place < memory.dimensions; ++place) {
        if (memory.sizes[place] < 0) {
            return false;
        }
    }
    memory.storage_address = read_at<std::uint64_t>(storage, layout.storage_address);
    return memory.elements >= 0 && memory.offset >= 0 && memory.type_code < kTypeCodes;
}

const char* tensor_of(PyObject* object) {
    return read_at<const char*>(reinterpret_cast<const char*>(object), layout.handle);
}

bool reads_as(const TensorMemory& memory, const ToldTensor& told) {
    return memory.storage_address == told.storage_address && memory.offset == told.offset &&
           memory.elements == told.elements && memory.dimensions == told.sizes.size() &&
           std::equal(told.sizes.begin(), told.sizes.end(), memory.sizes);
}

struct Sample {
    PyObject* object;
    const char* tensor;
    std::uint64_t storage;
    ToldTensor told;
    std::vector<std::int64_t> strides;
    long type;
    long device_kind;
    long device;
    std::uint64_t keys;
};

bool read_numbers(PyObject* tuple, std::vector<std::int64_t>& numbers) {
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(tuple); ++place) {
        numbers.push_back(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, place)));
    }
    return PyErr_Occurred() == nullptr;
}

bool read_sample(PyObject* described, Sample& sample) {
    unsigned long long tensor = 0;
    unsigned long long storage = 0;
    unsigned long long address = 0;
    long long offset = 0;
    long long elements = 0;
    unsigned int item_bytes = 0;
    unsigned long long keys = 0;
    PyObject* sizes = nullptr;
    PyObject* strides = nullptr;
    if (PyTuple_Check(described) == 0 ||
        PyArg_ParseTuple(described, "OKKKLLIO!O!lllK", &sample.object, &tensor, &storage, &address, &offset, &elements,
                         &item_bytes, &PyTuple_Type, &sizes, &PyTuple_Type, &strides, &sample.type, &sample.device_kind,
                         &sample.device, &keys) == 0) {
        return false;
    }
    sample.tensor = reinterpret_cast<const char*>(tensor);
    sample.storage = storage;
    sample.keys = keys;
    sample.told = ToldTensor{address, offset, elements, item_bytes, {}};
    return read_numbers(sizes, sample.told.sizes) && read_numbers(strides, sample.strides);
}

// The only word of some bytes at which all samples have the values that they must have. False if there is none, or if
// there are two.
template <typename Fits>
bool find_place(std::size_t first, std::size_t bytes, std::size_t length, Fits fits, std::size_t& found) {
    int places = 0;
    for (std::size_t place = first; place + length <= bytes; place += kWord) {
        if (fits(place)) {
            found = place;
            ++places;
        }
    }
    return places == 1;
}

bool has_shape_at(const Sample& sample, std::size_t place) {
    const char* const shape = sample.tensor + place;
    const std::size_t dimensions = sample.told.sizes.size();
    if (dimensions > kMostDimensions || read_at<std::uint64_t>(shape, 0) != dimensions) {
        return false;
    }
    if (read_at<std::int64_t>(shape, kOffset) != sample.told.offset ||
        read_at<std::int64_t>(shape, kElements) != sample.told.elements) {
        return false;
    }
    if (dimensions > kInlineDimensions) {
        return true;  // what lies elsewhere is only looked at once the place is known from the other samples
    }
    const Shape there = shape_at(shape, dimensions);
    return std::equal(sample.told.sizes.begin(), sample.told.sizes.end(), there.sizes) &&
           std::equal(sample.strides.begin(), sample.strides.end(), there.strides);
}

template <typename Fits>
bool holds_for_all(const std::vector<Sample>& samples, Fits fits) {
    for (const Sample& sample : samples) {
        if (!fits(sample)) {
            return false;
        }
    }
    return true;
}

// Whether two kinds of numbers stand for each other one to one.
class Correspondence {
public:
    bool add(long told, long read) {
        const auto there = read_of_.emplace(told, read);
        const auto back = told_of_.emplace(read, told);
        return there.first->second == read && back.first->second == told;
    }
    std::size_t size() const { return read_of_.size(); }

private:
    std::map<long, long> read_of_;
    std::map<long, long> told_of_;
};

bool find_layout(const std::vector<Sample>& samples, Layout& found) {
    const auto everywhere = [&samples](auto fits) {
        return [&samples, fits](std::size_t place) {
            return holds_for_all(samples, [&](const Sample& sample) { return fits(sample, place); });
        };
    };
    // Behind the head of the object; until torch 2.9 there is a flag before it.
    const bool has_handle = find_place(
        sizeof(PyObject), sizeof(PyObject) + 2 * kWord, kWord, everywhere([](const Sample& sample, std::size_t place) {
            return read_at<const char*>(reinterpret_cast<const char*>(sample.object), place) == sample.tensor;
        }),
        found.handle);
    const bool has_storage =
        find_place(kWord, kSearchedBytes, kWord, everywhere([](const Sample& sample, std::size_t place) {
                       return read_at<std::uint64_t>(sample.tensor, place) == sample.storage;
                   }),
                   found.storage);
    const bool has_shape = find_place(kWord, kSearchedBytes, kShapeBytes, everywhere(has_shape_at), found.shape);
    found.keys = (found.shape + kShapeBytes + kWord - 1) / kWord * kWord;  // next to it
    const bool has_keys = has_shape && holds_for_all(samples, [&found](const Sample& sample) {
                              return read_at<std::uint64_t>(sample.tensor, found.keys) == sample.keys;
                          });
    if (!has_handle || !has_storage || !has_shape || !has_keys) {
        return false;
    }
    return find_place(kWord, kSearchedStorageBytes, kWord, everywhere([](const Sample& sample, std::size_t place) {
                          const auto* const storage = reinterpret_cast<const char*>(sample.storage);
                          return read_at<std::uint64_t>(storage, place) == sample.told.storage_address;
                      }),
                      found.storage_address);
}

// Codes of dtypes and devices, and the virtual functions, which must be the same for all.
bool check_codes(const std::vector<Sample>& samples) {
    Correspondence types;
    Correspondence kinds;
    const void* const table = read_at<const void*>(samples.front().tensor, 0);
    for (const Sample& sample : samples) {
        TensorMemory memory{};
        if (!read_fields(sample.tensor, memory) || !reads_as(memory, sample.told) ||
            !types.add(sample.type, memory.type_code) || !kinds.add(sample.device_kind, memory.device_code & 0xFF) ||
            static_cast<std::int8_t>(memory.device_code >> 8U) != sample.device ||
            read_at<const void*>(sample.tensor, 0) != table) {
            return false;
        }
        if (!std::equal(sample.strides.begin(), sample.strides.end(), memory.strides)) {
            return false;
        }
        std::atomic<std::uint8_t>& item_bytes = item_bytes_of[memory.type_code];
        if (item_bytes != 0 && item_bytes != sample.told.item_bytes) {
            return false;
        }
        item_bytes = static_cast<std::uint8_t>(sample.told.item_bytes);
    }
    plain_tables[0].store(table, std::memory_order_release);
    return types.size() > 1 && kinds.size() > 1;
}

PyObject* tuple_of(const std::int64_t* numbers, std::uint32_t count) {
    PyObject* const tuple = PyTuple_New(count);
    for (std::uint32_t place = 0; tuple != nullptr && place < count; ++place) {
        PyTuple_SET_ITEM(tuple, place, PyLong_FromLongLong(numbers[place]));
    }
    return tuple;
}

void forget() {
    is_known = false;
    for (std::atomic<const void*>& table : plain_tables) {
        table = nullptr;
    }
    for (std::atomic<std::uint8_t>& item_bytes : item_bytes_of) {
        item_bytes = 0;
    }
    lessons_left = 0;
}

}  // namespace

bool read_tensor(PyObject* tensor, TensorMemory& memory) {
    return is_known.load(std::memory_order_acquire) && is_read_class(Py_TYPE(tensor)) &&
           read_tensor_at(tensor_of(tensor), memory);
}

bool read_tensor_at(const void* tensor, TensorMemory& memory) {
    const auto* const place = static_cast<const char*>(tensor);
    if (!is_known.load(std::memory_order_acquire) || place == nullptr || !is_plain(read_at<const void*>(place, 0)) ||
        !read_fields(place, memory)) {
        return false;
    }
    memory.item_bytes = item_bytes_of[memory.type_code].load(std::memory_order_relaxed);
    return memory.item_bytes != 0;
}

bool has_own_dispatch(const void* tensor) {
    return (read_at<std::uint64_t>(static_cast<const char*>(tensor), layout.keys) & own_dispatch_key) != 0;
}

const void* place_of_tensor(PyObject* tensor) {
    return is_known.load(std::memory_order_acquire) && is_read_class(Py_TYPE(tensor)) ? tensor_of(tensor) : nullptr;
}

bool may_learn_from(PyObject* tensor) { return lessons_left > 0 && is_read_class(Py_TYPE(tensor)); }

void learn_from(PyObject* tensor, const ToldTensor& told) {
    --lessons_left;
    const char* const place = tensor_of(tensor);
    TensorMemory memory{};
    if (place == nullptr || !read_fields(place, memory) || !reads_as(memory, told) || told.storage_address == 0) {
        return;
    }
    std::atomic<std::uint8_t>& item_bytes = item_bytes_of[memory.type_code];
    if (item_bytes != 0 && item_bytes != told.item_bytes) {
        forget();
        return;
    }
    const void* const table = read_at<const void*>(place, 0);
    for (std::atomic<const void*>& known : plain_tables) {
        if (known == table || known == nullptr) {
            item_bytes = static_cast<std::uint8_t>(told.item_bytes);
            known.store(table, std::memory_order_release);
            return;
        }
    }
}

PyObject* learn_tensor_layout(PyObject*, PyObject* arguments) {
    PyObject* classes = nullptr;
    PyObject* described = nullptr;
    unsigned long long own_dispatch = 0;
    if (PyArg_ParseTuple(arguments, "O!O!K", &PyTuple_Type, &classes, &PyTuple_Type, &described, &own_dispatch) == 0) {
        return nullptr;
    }
    forget();
    std::vector<Sample> samples(static_cast<std::size_t>(PyTuple_GET_SIZE(described)));
    for (std::size_t index = 0; index < samples.size(); ++index) {
        if (!read_sample(PyTuple_GET_ITEM(described, static_cast<Py_ssize_t>(index)), samples[index])) {
            return nullptr;
        }
    }
    if (samples.empty() || PyTuple_GET_SIZE(classes) > static_cast<Py_ssize_t>(kMostClasses)) {
        PyErr_SetString(PyExc_ValueError, "no samples, or too many classes");
        return nullptr;
    }
    for (Py_ssize_t index = 0; index < PyTuple_GET_SIZE(classes); ++index) {
        PyObject* const type = PyTuple_GET_ITEM(classes, index);
        // Kept for ever.
        read_classes[index] = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    }
    Layout found{};
    if (find_layout(samples, found)) {
        layout = found;
        own_dispatch_key = own_dispatch;
        is_known = own_dispatch != 0 && check_codes(samples);
    }
    if (!is_known) {
        forget();
        Py_RETURN_FALSE;
    }
    lessons_left = kMostLessons;
    Py_RETURN_TRUE;
}

PyObject* forget_tensor_layout(PyObject*, PyObject*) {
    forget();
    Py_RETURN_NONE;
}

PyObject* tensor_memory(PyObject*, PyObject* tensor) {
    TensorMemory memory{};
    if (!read_tensor(tensor, memory)) {
        Py_RETURN_NONE;
    }
    PyObject* const sizes = tuple_of(memory.sizes, memory.dimensions);
    PyObject* const strides = tuple_of(memory.strides, memory.dimensions);
    PyObject* const told =
        sizes == nullptr || strides == nullptr
            ? nullptr
            : Py_BuildValue("KLLIOO", static_cast<unsigned long long>(memory.storage_address),
                            static_cast<long long>(memory.offset), static_cast<long long>(memory.elements),
                            static_cast<unsigned int>(memory.item_bytes), sizes, strides);
    Py_XDECREF(sizes);
    Py_XDECREF(strides);
    return told;
}

}  // namespace msmemscope
