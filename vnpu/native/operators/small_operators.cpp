#include "small_operators.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device_failures.h"
#include "kernel_launch.h"
#include "objects.h"
#include "runtime_errors.h"
#include "settings.h"

namespace virtual_npu {
namespace {

// Arithmetic is for numbers that programs count with, not for token ids of a batch.
constexpr uint64_t kMostBytesComputed = uint64_t{64} << 10;

using Sizes = std::vector<int64_t>;

struct SmallWork : Execution {
    std::vector<const void*> objects;  // that it looks at
    std::function<void()> work;
};

int refuse_copy() {
    const char* text = "aclnnInplaceCopy: two tensors and room for an executor are needed";
    virtual_npu_call_refused(virtual_npu_current_driver_device(), text);
    virtual_npu_set_error(text);
    return kInvalidArgument;
}

// Leaves work for phase two. The objects that it looks at belong to the caller, who keeps them until then.
int leave(const char* function, void** executor, std::vector<const void*> objects, std::function<void()> work) {
    if (executor == nullptr) return kSuccess;
    auto* left = new SmallWork{};
    left->kind = ObjectKind::kExecution;
    left->function = function;
    left->run = [](Execution* self, char*, size_t) {
        static_cast<SmallWork*>(self)->work();
        return static_cast<int>(kSuccess);
    };
    left->destroy = [](Execution* self) {
        auto* work = static_cast<SmallWork*>(self);
        if (work->is_shared != 0) std::for_each(work->objects.begin(), work->objects.end(), release_object);
        delete work;
    };
    left->share = [](Execution* self) {
        auto* work = static_cast<SmallWork*>(self);
        work->is_shared = 1;
        std::for_each(work->objects.begin(), work->objects.end(), share_object);
    };
    left->end_of_output = [](const Execution*) -> void* { return nullptr; };
    left->objects = std::move(objects);
    left->work = std::move(work);
    *executor = left;
    return kSuccess;
}

uint64_t elements_of(const aclTensor& tensor) {
    uint64_t elements = 1;
    for (uint32_t dimension = 0; dimension < tensor.dimensions; ++dimension) {
        elements *= static_cast<uint64_t>(tensor.sizes[dimension]);
    }
    return elements;
}

uint64_t bytes_of(const aclTensor& tensor) { return elements_of(tensor) * value_bytes(tensor.data_type); }

char* first_byte(const aclTensor& tensor) {
    return static_cast<char*>(tensor.storage) + tensor.offset * static_cast<int64_t>(value_bytes(tensor.data_type));
}

bool is_contiguous(const aclTensor& tensor) {
    int64_t stride = 1;
    for (uint32_t dimension = tensor.dimensions; dimension-- > 0;) {
        if (tensor.sizes[dimension] != 1 && tensor.strides[dimension] != stride) return false;
        stride *= tensor.sizes[dimension];
    }
    return true;
}

Sizes sizes_of(const aclTensor& tensor) { return {tensor.sizes, tensor.sizes + tensor.dimensions}; }

// Small enough to be moved, whatever it holds.
bool is_moved(const aclTensor* tensor) {
    return is_tensor(tensor) &&
           bytes_of(*tensor) <= most_bytes_moved_without_compute(is_whole_number(tensor->data_type));
}
// Small enough to be computed with, and whole numbers.
bool is_counted(const aclTensor* tensor) {
    return is_tensor(tensor) && is_whole_number(tensor->data_type) && bytes_of(*tensor) <= kMostBytesComputed;
}

int64_t load(const char* place, int32_t type) {
    const auto as = [place](auto value) {
        std::memcpy(&value, place, sizeof value);
        return static_cast<int64_t>(value);
    };
    switch (type) {
        case kInt8:
            return as(int8_t{});
        case kUint8:
        case kBool:
            return as(uint8_t{});
        case kInt16:
            return as(int16_t{});
        case kUint16:
            return as(uint16_t{});
        case kInt32:
            return as(int32_t{});
        case kUint32:
            return as(uint32_t{});
        default:
            return as(int64_t{});
    }
}

void store(char* place, int32_t type, int64_t value) {
    if (type == kBool) value = value != 0 ? 1 : 0;
    std::memcpy(place, &value, value_bytes(type));  // the low bytes: both machines here are little-endian
}

// A tensor seen with the sizes that it is broadcast to.
struct View {
    char* data;
    int32_t type;
    Sizes strides;  // in bytes

    View(const aclTensor& tensor, const Sizes& sizes) : data(first_byte(tensor)), type(tensor.data_type) {
        const auto width = static_cast<int64_t>(value_bytes(type));
        strides.assign(sizes.size(), 0);
        const size_t missing = sizes.size() - tensor.dimensions;
        for (uint32_t dimension = 0; dimension < tensor.dimensions; ++dimension) {
            if (tensor.sizes[dimension] != 1) strides[missing + dimension] = tensor.strides[dimension] * width;
        }
    }
    char* at(const Sizes& index) const {
        char* place = data;
        for (size_t dimension = 0; dimension < index.size(); ++dimension)
            place += index[dimension] * strides[dimension];
        return place;
    }
    int64_t get(const Sizes& index) const { return load(at(index), type); }
    void set(const Sizes& index, int64_t value) const { store(at(index), type, value); }
};

bool can_broadcast(const aclTensor& tensor, const Sizes& sizes) {
    if (tensor.dimensions > sizes.size()) return false;
    const size_t missing = sizes.size() - tensor.dimensions;
    for (uint32_t dimension = 0; dimension < tensor.dimensions; ++dimension) {
        if (tensor.sizes[dimension] != 1 && tensor.sizes[dimension] != sizes[missing + dimension]) return false;
    }
    return true;
}

// Calls visit(index) for every element, the last dimension fastest.
template <typename Visit>
void for_each(const Sizes& sizes, Visit visit) {
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
    Sizes index(sizes.size(), 0);
    while (true) {
        visit(index);
        size_t dimension = sizes.size();
        while (dimension > 0 && ++index[dimension - 1] == sizes[dimension - 1]) index[--dimension] = 0;
        if (dimension == 0) return;
    }
}

// False for a scalar that is no whole number.
bool whole_number(const aclScalar* scalar, int64_t* value) {
    if (scalar == nullptr || scalar->kind != ObjectKind::kScalar) return false;
    const auto* bytes = reinterpret_cast<const char*>(scalar->value);
    if (is_whole_number(scalar->data_type)) {
        *value = load(bytes, scalar->data_type);
        return true;
    }
    double number = 0.5;
    if (scalar->data_type == kDouble) std::memcpy(&number, bytes, sizeof number);
    if (scalar->data_type == kFloat) {
        float narrow = 0;
        std::memcpy(&narrow, bytes, sizeof narrow);
        number = static_cast<double>(narrow);
    }
    if (number != std::floor(number) || std::fabs(number) > 9e15) return false;
    *value = static_cast<int64_t>(number);
    return true;
}

// --- moving

int copies(const aclTensor* target, const aclTensor* source, uint64_t*, void** executor) {
    if (!is_tensor(target) || !is_tensor(source) || executor == nullptr) return refuse_copy();
    if (!is_moved(target) || !is_moved(source)) return kSuccess;
    if (target->data_type == source->data_type && bytes_of(*target) == bytes_of(*source) && is_contiguous(*target) &&
        is_contiguous(*source)) {
        return leave("aclnnInplaceCopy", executor, {target, source},
                     [target, source] { std::memmove(first_byte(*target), first_byte(*source), bytes_of(*target)); });
    }
    const Sizes sizes = sizes_of(*target);
    if (!is_counted(target) || !is_counted(source) || !can_broadcast(*source, sizes)) return kSuccess;
    return leave("aclnnInplaceCopy", executor, {target, source}, [target, source, sizes] {
        const View from(*source, sizes);
        const View to(*target, sizes);
        for_each(sizes, [&](const Sizes& index) { to.set(index, from.get(index)); });
    });
}

int casts(const aclTensor* source, int, const aclTensor* target, uint64_t*, void** executor) {
    const bool can = is_counted(target) && is_counted(source) && executor != nullptr;
    return can ? copies(target, source, nullptr, executor) : static_cast<int>(kSuccess);
}

int concatenates(const aclTensorList* list, int64_t dimension, const aclTensor* target, uint64_t*, void** executor) {
    if (list == nullptr || list->kind != ObjectKind::kTensorList || !is_moved(target) || !is_contiguous(*target)) {
        return kSuccess;
    }
    if (dimension < 0) dimension += target->dimensions;
    if (dimension < 0 || dimension >= target->dimensions) return kSuccess;
    uint64_t bytes = 0;
    for (uint64_t number = 0; number < list->count; ++number) {
        const aclTensor* tensor = list->elements[number];
        if (!is_moved(tensor) || tensor->data_type != target->data_type || !is_contiguous(*tensor)) return kSuccess;
        bytes += bytes_of(*tensor);
    }
    if (bytes != bytes_of(*target)) return kSuccess;
    return leave("aclnnCat", executor, {list, target}, [list, target, dimension] {
        uint64_t rows = 1;
        for (int64_t outer = 0; outer < dimension; ++outer) rows *= static_cast<uint64_t>(target->sizes[outer]);
        char* to = first_byte(*target);
        for (uint64_t row = 0; row < rows; ++row) {
            for (uint64_t number = 0; number < list->count; ++number) {
                const uint64_t length = bytes_of(*list->elements[number]) / rows;
                std::memcpy(to, first_byte(*list->elements[number]) + row * length, length);
                to += length;
            }
        }
    });
}

int pads(const aclTensor* source, const aclIntArray* padding, const aclScalar* value, const aclTensor* target,
         uint64_t*, void** executor) {
    int64_t filling = 0;
    if (!is_moved(source) || !is_moved(target) || padding == nullptr || padding->kind != ObjectKind::kIntArray ||
        source->data_type != target->data_type || source->dimensions != target->dimensions ||
        padding->count > uint64_t{2} * source->dimensions || !whole_number(value, &filling) ||
        (filling != 0 && !is_whole_number(target->data_type))) {
        return kSuccess;
    }
    Sizes before(source->dimensions, 0);  // of each dimension; the array begins with the last one
    for (uint64_t pair = 0; pair + 1 < padding->count; pair += 2) {
        const uint64_t dimension = source->dimensions - 1 - pair / 2;
        before[dimension] = padding->elements[pair];
        if (padding->elements[pair] < 0 || padding->elements[pair + 1] < 0 ||
            source->sizes[dimension] + padding->elements[pair] + padding->elements[pair + 1] !=
                target->sizes[dimension]) {
            return kSuccess;
        }
    }
    return leave("aclnnConstantPadNd", executor, {source, target}, [source, target, before, filling] {
        const View to(*target, sizes_of(*target));
        const size_t width = value_bytes(to.type);
        for_each(sizes_of(*target), [&](const Sizes& index) {
            if (filling == 0) {
                std::memset(to.at(index), 0, width);
            } else {
                to.set(index, filling);
            }
        });
        const View from(*source, sizes_of(*source));
        for_each(sizes_of(*source), [&](Sizes index) {
            const char* place = from.at(index);
            for (size_t dimension = 0; dimension < index.size(); ++dimension) index[dimension] += before[dimension];
            std::memcpy(to.at(index), place, width);
        });
    });
}

// --- counting

int fills_with(const char* function, const aclTensor* target, int64_t value, void** executor) {
    if (!is_counted(target)) return kSuccess;
    return leave(function, executor, {target}, [target, value] {
        const Sizes sizes = sizes_of(*target);
        const View to(*target, sizes);
        for_each(sizes, [&](const Sizes& index) { to.set(index, value); });
    });
}

int fills_with_zero(const aclTensor* target, uint64_t*, void** executor) {
    return fills_with("aclnnInplaceZero", target, 0, executor);
}

int fills_with_one(const aclTensor* target, uint64_t*, void** executor) {
    return fills_with("aclnnInplaceOne", target, 1, executor);
}

int fills(const aclTensor* target, const aclScalar* value, uint64_t*, void** executor) {
    int64_t number = 0;
    return whole_number(value, &number) ? fills_with("aclnnInplaceFillScalar", target, number, executor)
                                        : static_cast<int>(kSuccess);
}

template <typename Function>
int combines(const char* name, const aclTensor* left, const aclTensor* right, const aclTensor* target, void** executor,
             Function function) {
    if (!is_counted(left) || !is_counted(right) || !is_counted(target)) return kSuccess;
    const Sizes sizes = sizes_of(*target);
    if (!can_broadcast(*left, sizes) || !can_broadcast(*right, sizes)) return kSuccess;
    return leave(name, executor, {left, right, target}, [left, right, target, sizes, function] {
        const View first(*left, sizes);
        const View second(*right, sizes);
        const View to(*target, sizes);
        for_each(sizes, [&](const Sizes& index) { to.set(index, function(first.get(index), second.get(index))); });
    });
}

template <typename Function>
int combines_with(const char* name, const aclTensor* left, const aclScalar* right, const aclTensor* target,
                  void** executor, Function function) {
    int64_t number = 0;
    if (!is_counted(left) || !is_counted(target) || !whole_number(right, &number)) return kSuccess;
    return combines(name, left, left, target, executor,
                    [function, number](int64_t value, int64_t) { return function(value, number); });
}

// Overflow wraps, as in torch.
int64_t times(int64_t left, int64_t right) {
    return static_cast<int64_t>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
}
int64_t plus(int64_t left, int64_t right) {
    return static_cast<int64_t>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
}

template <int64_t Sign>
int adds(const char* name, const aclTensor* left, const aclTensor* right, const aclScalar* alpha,
         const aclTensor* target, void** executor) {
    int64_t factor = 1;
    if (!whole_number(alpha, &factor)) return kSuccess;
    return combines(name, left, right, target, executor,
                    [factor](int64_t a, int64_t b) { return plus(a, times(Sign * factor, b)); });
}
template <int64_t Sign>
int adds_number(const char* name, const aclTensor* left, const aclScalar* right, const aclScalar* alpha,
                const aclTensor* target, void** executor) {
    int64_t factor = 1;
    if (!whole_number(alpha, &factor)) return kSuccess;
    return combines_with(name, left, right, target, executor,
                         [factor](int64_t a, int64_t b) { return plus(a, times(Sign * factor, b)); });
}

// What is left of a tensor where all elements of some dimensions become one.
template <typename Function>
int reduces(const char* name, const aclTensor* source, const Sizes& dimensions, const aclTensor* target,
            void** executor, Function function, bool begins_with_zero) {
    if (!is_counted(source) || !is_counted(target)) return kSuccess;
    std::vector<bool> is_reduced(source->dimensions, dimensions.empty());
    for (int64_t dimension : dimensions) {
        if (dimension < 0) dimension += source->dimensions;
        if (dimension < 0 || dimension >= source->dimensions) return kSuccess;
        is_reduced[static_cast<size_t>(dimension)] = true;
    }
    uint64_t kept = 1;
    for (uint32_t dimension = 0; dimension < source->dimensions; ++dimension) {
        if (!is_reduced[dimension]) kept *= static_cast<uint64_t>(source->sizes[dimension]);
    }
    if (kept != elements_of(*target) || !is_contiguous(*target)) return kSuccess;
    if (!begins_with_zero && elements_of(*source) == 0) return kSuccess;
    return leave(name, executor, {source, target}, [source, target, is_reduced, kept, function, begins_with_zero] {
        const Sizes sizes = sizes_of(*source);
        const View from(*source, sizes);
        Sizes results(kept, 0);
        std::vector<bool> is_begun(kept, begins_with_zero);
        for_each(sizes, [&](const Sizes& index) {
            uint64_t place = 0;
            for (size_t dimension = 0; dimension < sizes.size(); ++dimension) {
                if (is_reduced[dimension]) continue;
                place = place * static_cast<uint64_t>(sizes[dimension]) + static_cast<uint64_t>(index[dimension]);
            }
            results[place] = is_begun[place] ? function(results[place], from.get(index)) : from.get(index);
            is_begun[place] = true;
        });
        char* to = first_byte(*target);
        const size_t width = value_bytes(target->data_type);
        for (uint64_t place = 0; place < kept; ++place) store(to + place * width, target->data_type, results[place]);
    });
}

int sums(const aclTensor* source, const aclIntArray* dimensions, bool, int, const aclTensor* target, uint64_t*,
         void** executor) {
    if (dimensions == nullptr || dimensions->kind != ObjectKind::kIntArray) return kSuccess;
    return reduces("aclnnReduceSum", source, Sizes(dimensions->elements, dimensions->elements + dimensions->count),
                   target, executor, plus, true);
}

int64_t larger(int64_t left, int64_t right) { return std::max(left, right); }
int64_t smaller(int64_t left, int64_t right) { return std::min(left, right); }

using TensorPointer = const aclTensor*;
using ScalarPointer = const aclScalar*;

// Phase one of the functions of two tensors, or of a tensor and a number, and a result.
#define OF_TWO(name, expression)                                                                     \
    +[](TensorPointer left, TensorPointer right, TensorPointer target, uint64_t*, void** executor) { \
        return combines(name, left, right, target, executor,                                         \
                        [](int64_t a, int64_t b) -> int64_t { return expression; });                 \
    }
#define WITH_NUMBER(name, expression)                                                                \
    +[](TensorPointer left, ScalarPointer right, TensorPointer target, uint64_t*, void** executor) { \
        return combines_with(name, left, right, target, executor,                                    \
                             [](int64_t a, int64_t b) -> int64_t { return expression; });            \
    }

using Plan = void (*)();
template <typename Function>
Plan plan(Function function) {
    return reinterpret_cast<Plan>(function);
}

const std::unordered_map<std::string, Plan>& small_operators() {
    static const auto* functions = new std::unordered_map<std::string, Plan>{
        {"aclnnInplaceCopy", plan(&copies)},
        {"aclnnCast", plan(&casts)},
        {"aclnnCat", plan(&concatenates)},
        {"aclnnConstantPadNd", plan(&pads)},
        {"aclnnInplaceZero", plan(&fills_with_zero)},
        {"aclnnInplaceOne", plan(&fills_with_one)},
        {"aclnnInplaceFillScalar", plan(&fills)},
        {"aclnnAdd",
         plan(+[](TensorPointer left, TensorPointer right, ScalarPointer alpha, TensorPointer target, uint64_t*,
                  void** executor) { return adds<1>("aclnnAdd", left, right, alpha, target, executor); })},
        {"aclnnInplaceAdd",
         plan(+[](TensorPointer left, TensorPointer right, ScalarPointer alpha, uint64_t*, void** executor) {
             return adds<1>("aclnnInplaceAdd", left, right, alpha, left, executor);
         })},
        {"aclnnAdds",
         plan(+[](TensorPointer left, ScalarPointer right, ScalarPointer alpha, TensorPointer target, uint64_t*,
                  void** executor) { return adds_number<1>("aclnnAdds", left, right, alpha, target, executor); })},
        {"aclnnInplaceAdds",
         plan(+[](TensorPointer left, ScalarPointer right, ScalarPointer alpha, uint64_t*, void** executor) {
             return adds_number<1>("aclnnInplaceAdds", left, right, alpha, left, executor);
         })},
        {"aclnnSub",
         plan(+[](TensorPointer left, TensorPointer right, ScalarPointer alpha, TensorPointer target, uint64_t*,
                  void** executor) { return adds<-1>("aclnnSub", left, right, alpha, target, executor); })},
        {"aclnnSubs",
         plan(+[](TensorPointer left, ScalarPointer right, ScalarPointer alpha, TensorPointer target, uint64_t*,
                  void** executor) { return adds_number<-1>("aclnnSubs", left, right, alpha, target, executor); })},
        {"aclnnMul", plan(OF_TWO("aclnnMul", times(a, b)))},
        {"aclnnMuls", plan(WITH_NUMBER("aclnnMuls", times(a, b)))},
        {"aclnnMaximum", plan(OF_TWO("aclnnMaximum", larger(a, b)))},
        {"aclnnMinimum", plan(OF_TWO("aclnnMinimum", smaller(a, b)))},
        {"aclnnGtTensor", plan(OF_TWO("aclnnGtTensor", a > b))},
        {"aclnnGeTensor", plan(OF_TWO("aclnnGeTensor", a >= b))},
        {"aclnnLtTensor", plan(OF_TWO("aclnnLtTensor", a < b))},
        {"aclnnLeTensor", plan(OF_TWO("aclnnLeTensor", a <= b))},
        {"aclnnEqTensor", plan(OF_TWO("aclnnEqTensor", a == b))},
        {"aclnnNeTensor", plan(OF_TWO("aclnnNeTensor", a != b))},
        {"aclnnGtScalar", plan(WITH_NUMBER("aclnnGtScalar", a > b))},
        {"aclnnGeScalar", plan(WITH_NUMBER("aclnnGeScalar", a >= b))},
        {"aclnnLtScalar", plan(WITH_NUMBER("aclnnLtScalar", a < b))},
        {"aclnnLeScalar", plan(WITH_NUMBER("aclnnLeScalar", a <= b))},
        {"aclnnEqScalar", plan(WITH_NUMBER("aclnnEqScalar", a == b))},
        {"aclnnNeScalar", plan(WITH_NUMBER("aclnnNeScalar", a != b))},
        {"aclnnReduceSum", plan(&sums)},
        {"aclnnMax", plan(+[](TensorPointer source, TensorPointer target, uint64_t*, void** executor) {
             return reduces("aclnnMax", source, {}, target, executor, larger, false);
         })},
        {"aclnnMin", plan(+[](TensorPointer source, TensorPointer target, uint64_t*, void** executor) {
             return reduces("aclnnMin", source, {}, target, executor, smaller, false);
         })},
    };
    return *functions;
}

}  // namespace

bool is_tensor(const aclTensor* tensor) { return tensor != nullptr && tensor->kind == ObjectKind::kTensor; }

void (*find_small_operator(const char* function))() {
    const auto place = small_operators().find(function);
    return place == small_operators().end() ? nullptr : place->second;
}

}  // namespace virtual_npu
