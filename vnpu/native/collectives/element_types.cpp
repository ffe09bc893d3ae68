#include "element_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "short_floats.h"

namespace virtual_npu {
namespace {

constexpr size_t kBlock = 1024;  // elements that are added up at a time; the sums stay in the first cache

// In what a type is added up. Signed integers go through unsigned ones: an overflow wraps, as on the device.
template <typename Element>
struct Accumulator {
    using Type = Element;
};
template <>
struct Accumulator<Float16> {
    using Type = float;
};
template <>
struct Accumulator<Bfloat16> {
    using Type = float;
};

template <typename Element>
constexpr bool kIsHalf = std::is_same_v<Element, Float16> || std::is_same_v<Element, Bfloat16>;

template <typename Element>
typename Accumulator<Element>::Type load(Element value) {
    if constexpr (kIsHalf<Element>) {
        return widen(value);
    } else {
        return value;
    }
}

template <typename Element>
void store(typename Accumulator<Element>::Type value, Element* result) {
    if constexpr (kIsHalf<Element>) {
        narrow(value, result);
    } else {
        *result = value;
    }
}

template <typename Value>
Value add(Value left, Value right) {
    if constexpr (std::is_integral_v<Value>) {
        return static_cast<Value>(static_cast<uint64_t>(left) + static_cast<uint64_t>(right));
    } else {
        return left + right;
    }
}

template <typename Value>
Value multiply(Value left, Value right) {
    if constexpr (std::is_integral_v<Value>) {
        return static_cast<Value>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
    } else {
        return left * right;
    }
}

// What is not a number stays it.
template <typename Value>
Value maximum(Value left, Value right) {
    return left != left || left > right ? left : right;
}
template <typename Value>
Value minimum(Value left, Value right) {
    return left != left || left < right ? left : right;
}

template <typename Element, typename Operation>
void reduce_with(Operation operation, const std::byte* const* sources, uint32_t source_count, size_t count,
                 std::byte* target) {
    using Value = typename Accumulator<Element>::Type;
    Value values[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
        const size_t length = std::min(kBlock, count - begin);
        const auto* first = reinterpret_cast<const Element*>(sources[0]) + begin;
        for (size_t index = 0; index < length; ++index) values[index] = load(first[index]);
        for (uint32_t source = 1; source < source_count; ++source) {
            const auto* next = reinterpret_cast<const Element*>(sources[source]) + begin;
            for (size_t index = 0; index < length; ++index) values[index] = operation(values[index], load(next[index]));
        }
        auto* results = reinterpret_cast<Element*>(target) + begin;
        for (size_t index = 0; index < length; ++index) store(values[index], &results[index]);
    }
}

template <typename Element>
void reduce_type(int reduction, const std::byte* const* sources, uint32_t source_count, size_t count,
                 std::byte* target) {
    using Value = typename Accumulator<Element>::Type;
    const auto with = [&](Value (*operation)(Value, Value)) {
        reduce_with<Element>(operation, sources, source_count, count, target);
    };
    switch (static_cast<Reduction>(reduction)) {
        case Reduction::kSum:
            // By far the most frequent one: written so that the compiler sees through it and uses vectors.
            return reduce_with<Element>([](Value left, Value right) { return add(left, right); }, sources, source_count,
                                        count, target);
        case Reduction::kProduct:
            return with(&multiply<Value>);
        case Reduction::kMaximum:
            return with(&maximum<Value>);
        case Reduction::kMinimum:
            return with(&minimum<Value>);
    }
}

}  // namespace

size_t element_bytes(int type) {
    switch (static_cast<ElementType>(type)) {
        case ElementType::kInt8:
        case ElementType::kUint8:
        case ElementType::kHifloat8:
        case ElementType::kFloat8E4M3:
        case ElementType::kFloat8E5M2:
        case ElementType::kFloat8E8M0:
            return 1;
        case ElementType::kInt16:
        case ElementType::kUint16:
        case ElementType::kFloat16:
        case ElementType::kBfloat16:
            return 2;
        case ElementType::kInt32:
        case ElementType::kUint32:
        case ElementType::kFloat32:
            return 4;
        case ElementType::kInt64:
        case ElementType::kUint64:
        case ElementType::kFloat64:
            return 8;
        case ElementType::kInt128:
            return 16;
    }
    return 0;
}

bool is_whole_number(int type) {
    switch (static_cast<ElementType>(type)) {
        case ElementType::kInt8:
        case ElementType::kInt16:
        case ElementType::kInt32:
        case ElementType::kInt64:
        case ElementType::kUint8:
        case ElementType::kUint16:
        case ElementType::kUint32:
        case ElementType::kUint64:
            return true;
        default:
            return false;
    }
}

const char* type_name(int type) {
    constexpr const char* kNames[] = {"int8",   "int16", "int32",    "float16",     "float32",     "int64",
                                      "uint64", "uint8", "uint16",   "uint32",      "float64",     "bfloat16",
                                      "int128", "13",    "hifloat8", "float8_e4m3", "float8_e5m2", "float8_e8m0"};
    return type >= 0 && static_cast<size_t>(type) < sizeof kNames / sizeof kNames[0] ? kNames[type] : "no type";
}

const char* reduction_name(int reduction) {
    constexpr const char* kNames[] = {"sum", "product", "maximum", "minimum"};
    return reduction >= 0 && reduction < 4 ? kNames[reduction] : "no reduction";
}

bool can_reduce(int type, int reduction) {
    return type >= 0 && type <= static_cast<int>(ElementType::kBfloat16) && reduction >= 0 && reduction <= 3;
}

void reduce(int type, int reduction, const std::byte* const* sources, uint32_t source_count, size_t count,
            std::byte* target) {
    const auto as = [&](auto element) {
        reduce_type<decltype(element)>(reduction, sources, source_count, count, target);
    };
    switch (static_cast<ElementType>(type)) {
        case ElementType::kInt8:
            return as(int8_t{});
        case ElementType::kInt16:
            return as(int16_t{});
        case ElementType::kInt32:
            return as(int32_t{});
        case ElementType::kInt64:
            return as(int64_t{});
        case ElementType::kUint8:
            return as(uint8_t{});
        case ElementType::kUint16:
            return as(uint16_t{});
        case ElementType::kUint32:
            return as(uint32_t{});
        case ElementType::kUint64:
            return as(uint64_t{});
        case ElementType::kFloat16:
            return as(Float16{});
        case ElementType::kBfloat16:
            return as(Bfloat16{});
        case ElementType::kFloat32:
            return as(float{});
        case ElementType::kFloat64:
            return as(double{});
        default:
            return;  // can_reduce() was asked before
    }
}

}  // namespace virtual_npu
