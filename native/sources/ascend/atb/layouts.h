// The memory layout of ATB's own structures, as far as they are read here.
//
// They are declared again, because ATB's headers are missing where the core is built. Their sizes and offsets are
// checked below. Two versions are in use of the pack that is handed to Runner::Execute, and two of Mki's tensor. All
// fields that are read of a pack lie before the place where its versions differ.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::atb {

struct Dims {
    static constexpr std::uint64_t kMost = 8;

    std::int64_t dims[kMost];
    std::uint64_t count;
};

struct TensorDescription {
    std::int32_t dtype;   // aclDataType
    std::int32_t format;  // aclFormat
    Dims shape;
};

struct Tensor {
    TensorDescription description;
    void* device_data;
    void* host_data;
    std::uint64_t data_bytes;
};

// Elements lie in the structure itself, or on the heap once they have become too many. The capacity says nothing: it
// is 0 until something was moved.
template <typename Element>
struct SmallVector {
    static constexpr std::uint64_t kMostHere = 65;
    static constexpr std::uint64_t kMostOnHeap = 256;

    std::uint64_t capacity;
    std::uint64_t size;
    Element here[kMostHere];
    Element* heap;

    const Element* elements() const noexcept { return heap != nullptr ? heap : here; }
    std::uint64_t count() const noexcept {
        const std::uint64_t most = heap != nullptr ? kMostOnHeap : kMostHere;
        return size < most ? size : most;
    }
};

struct VariantPackStart {
    SmallVector<Tensor> in_tensors;
    SmallVector<Tensor> out_tensors;
    SmallVector<bool> is_in_tensor_free;
    SmallVector<bool> is_out_tensor_allocated;
    void* host_tiling;
    void* tiling;
    std::uint64_t tiling_bytes;
    void* workspace;
    std::uint64_t workspace_bytes;
    void* intermediate;
    std::uint64_t intermediate_bytes;
};

// RunnerVariantPack up to CANN 8.1.
struct OlderVariantPack {
    VariantPackStart start;
    void* context;
};

// RunnerVariantPack from CANN 8.2 on.
struct VariantPack {
    VariantPackStart start;
    void* device_arguments;
    void* host_arguments;
    void* context;
    void* memory_register;
};

static_assert(sizeof(Dims) == 72);
static_assert(sizeof(TensorDescription) == 80 && offsetof(TensorDescription, shape) == 8);
static_assert(sizeof(Tensor) == 104 && offsetof(Tensor, device_data) == 80 && offsetof(Tensor, data_bytes) == 96);
static_assert(sizeof(SmallVector<Tensor>) == 6784 && offsetof(SmallVector<Tensor>, heap) == 6776);
static_assert(sizeof(SmallVector<bool>) == 96 && offsetof(SmallVector<bool>, heap) == 88);
static_assert(offsetof(VariantPackStart, out_tensors) == 6784);
static_assert(offsetof(VariantPackStart, host_tiling) == 13760);
static_assert(offsetof(VariantPackStart, workspace) == 13784);
static_assert(offsetof(VariantPackStart, intermediate_bytes) == 13808);
static_assert(sizeof(OlderVariantPack) == 13824 && offsetof(OlderVariantPack, context) == 13816);
static_assert(sizeof(VariantPack) == 13848 && offsetof(VariantPack, context) == 13832);

// A vector of Mki: 49 elements and their number behind them.
struct MkiDims {
    static constexpr std::uint64_t kMost = 48;

    std::int64_t dims[kMost + 1];
    std::uint64_t count;
};

struct MkiTensorDescription {
    std::int32_t dtype;   // Mki::TensorDType
    std::int32_t format;  // Mki::TensorFormat
    MkiDims shape;
};

static_assert(sizeof(MkiDims) == 400 && offsetof(MkiDims, count) == 392);
static_assert(sizeof(MkiTensorDescription) == 408 && offsetof(MkiTensorDescription, shape) == 8);

// Where the rest of a Mki tensor lies: newer ones have strides between the shape and the data.
struct MkiLayout {
    static constexpr std::uint64_t kMostTensors = 48;

    std::size_t tensor_bytes;
    std::size_t data;
    std::size_t data_bytes;
    std::size_t vector_count;  // in a vector of such tensors
};

inline constexpr MkiLayout kMkiWithStrides{464, 440, 448, 22736};
inline constexpr MkiLayout kMkiWithoutStrides{432, 408, 416, 21168};

static_assert(kMkiWithStrides.vector_count == (MkiLayout::kMostTensors + 1) * kMkiWithStrides.tensor_bytes);
static_assert(kMkiWithoutStrides.vector_count == (MkiLayout::kMostTensors + 1) * kMkiWithoutStrides.tensor_bytes);

// The layout of two vectors of tensors, the inputs and the outputs of a launch. Null if neither fits.
const MkiLayout* mki_layout_of(const void* inputs, const void* outputs) noexcept;

}  // namespace msmemscope::atb
