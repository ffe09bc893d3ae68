// The part of ATB's interface that torch_npu's plugin meets: classes that it calls through their virtual functions, and
// structs whose layout it was compiled with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace atb {

using Status = int32_t;
constexpr Status kSuccess = 0;
constexpr Status kErrorInvalidParameter = 4;

struct Dims {
    int64_t sizes[8];
    uint64_t count;
};

struct TensorDesc {
    int32_t type;  // an aclDataType
    int32_t format;
    Dims shape;
};

struct Tensor {
    TensorDesc desc;
    void* device_data;
    void* host_data;
    uint64_t bytes;
};

// Elements beyond 64 lie on the heap.
template <typename Element>
class SVector {
public:
    SVector() = default;
    // A copy needs no memory of the original: here all have few elements.
    SVector(const SVector& other) : capacity_(other.capacity_), size_(other.size_), heap_(nullptr) {
        std::copy(&other[0], &other[0] + size_, storage_);
    }
    SVector& operator=(const SVector&) = delete;
    size_t size() const { return size_; }
    const Element& operator[](size_t index) const { return heap_ != nullptr ? heap_[index] : storage_[index]; }
    Element& operator[](size_t index) { return heap_ != nullptr ? heap_[index] : storage_[index]; }
    void resize(size_t size) { size_ = size; }

private:
    size_t capacity_;
    size_t size_;
    Element storage_[65];
    Element* heap_;
};

struct VariantPack {
    SVector<Tensor> inputs;
    SVector<Tensor> outputs;
};

enum ExecuteType : int { kExecuteNormal = 0, kExecutePreLaunch = 1, kExecuteLaunch = 2 };

// The order of the virtual functions is the interface.
class Context {
public:
    virtual ~Context() = default;
    virtual Status SetExecuteStream(void* stream) = 0;
    virtual void* GetExecuteStream() const = 0;
    virtual Status SetAsyncTilingCopyStatus(bool enable) = 0;
    virtual bool GetAsyncTilingCopyStatus() const = 0;
    virtual Status SetExecuteStreams(const std::vector<void*>& streams) = 0;
    virtual std::vector<void*> GetExecuteStreams() = 0;
    virtual Status SetExecuteType(ExecuteType type) = 0;
    virtual ExecuteType GetExecuteType() = 0;
};

class Operation {
public:
    virtual ~Operation() = default;
    virtual std::string GetName() const = 0;
    virtual Status InferShape(const SVector<TensorDesc>& inputs, SVector<TensorDesc>& outputs) const = 0;
    virtual uint32_t GetInputNum() const = 0;
    virtual uint32_t GetOutputNum() const = 0;
    virtual Status Setup(const VariantPack& pack, uint64_t& workspace_bytes, Context* context) = 0;
    virtual Status Execute(const VariantPack& pack, uint8_t* workspace, uint64_t workspace_bytes, Context* context) = 0;
};

namespace infer {
struct LinearParam {
    bool transposes_first;
    bool transposes_second;
    bool has_bias;
    int32_t output_type;  // an aclDataType, or -1
    bool accumulates;     // into the output, which is the third input
    int32_t kind;         // 0: of whole matrices
    int32_t quantization;
    uint8_t reserved[20];
};
struct ElewiseParam;
struct RmsNormParam;
struct GroupTopkParam;
struct SelfAttentionParam;
struct PagedAttentionParam;
struct ReshapeAndCacheParam {
    int32_t compression;  // 0: the caches have the heads of what is written into them
    int32_t kinds;        // 0: keys and values
    uint8_t reserved[16];
};
struct RopeParam {
    int32_t coefficient;  // numbers turn within pieces of a head: 2, its halves; as many as a head is long, neighbours
    int32_t cosine_format;
    uint8_t reserved[16];
};
}  // namespace infer

}  // namespace atb
