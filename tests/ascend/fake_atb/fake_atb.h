// A stand-in for libatb.so. It has the classes that the tool meets, with the real names, signatures and layouts. Its
// operators compute on the host.
//
// _GLIBCXX_USE_CXX11_ABI chooses the layout of strings and so the names of functions. FAKE_ATB_OLDER_PACK gives
// RunnerVariantPack the layout that it had up to CANN 8.1. FAKE_ATB_OLDER_MKI takes strides from tensors of kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace Mki {

template <typename Element>
struct SVector {
    Element storage[49] = {};
    std::size_t count = 0;

    void push_back(const Element& element) { storage[count++] = element; }
};

struct TensorDesc {
    std::int32_t dtype = 0;
    std::int32_t format = 0;
    SVector<std::int64_t> dims;
#ifndef FAKE_ATB_OLDER_MKI
    std::vector<std::int64_t> strides;
    std::int64_t offset = 0;
#endif
};

struct Tensor {
    TensorDesc desc;
    void* data = nullptr;
    std::size_t dataSize = 0;
    void* hostData = nullptr;
};

class LaunchParam {
public:
    SVector<Tensor>& GetInTensors();
    SVector<Tensor>& GetOutTensors();

private:
    void* parameters_[4] = {};
    SVector<Tensor> in_;
#ifdef FAKE_ATB_OLDER_MKI
    void* between_[2] = {};
#endif
    SVector<Tensor> out_;
};

}  // namespace Mki

namespace atb {

using Status = std::int32_t;

struct Dims {
    std::int64_t dims[8] = {};
    std::uint64_t dimNum = 0;
};

struct TensorDesc {
    std::int32_t dtype = -1;
    std::int32_t format = -1;
    Dims shape;
};

struct Tensor {
    TensorDesc desc;
    void* deviceData = nullptr;
    void* hostData = nullptr;
    std::uint64_t dataSize = 0;
};

template <typename Element>
class SVector {
public:
    SVector() = default;
    SVector(const SVector&) = delete;
    SVector& operator=(const SVector&) = delete;
    ~SVector() { std::free(heap_); }

    void push_back(const Element& element) {
        if (size_ == 64) {
            heap_ = static_cast<Element*>(std::malloc(256 * sizeof(Element)));
            for (std::size_t index = 0; index < size_; ++index) heap_[index] = storage_[index];
            capacity_ = 256;
        }
        (heap_ != nullptr ? heap_ : storage_)[size_++] = element;
    }
    std::size_t size() const { return size_; }
    const Element& at(std::size_t index) const { return (heap_ != nullptr ? heap_ : storage_)[index]; }

private:
    std::size_t capacity_ = 0;
    std::size_t size_ = 0;
    Element storage_[65];
    Element* heap_ = nullptr;
};

class Context {
public:
    void* stream = nullptr;
};

struct RunnerVariantPack {
    SVector<Tensor> inTensors;
    SVector<Tensor> outTensors;
    SVector<bool> isInTensorCanFree;
    SVector<bool> isOutTensorNeedMalloc;
    std::uint8_t* hostTilingBuffer = nullptr;
    std::uint8_t* tilingBuffer = nullptr;
    std::uint64_t tilingBufferSize = 0;
    std::uint8_t* workspaceBuffer = nullptr;
    std::uint64_t workspaceBufferSize = 0;
    std::uint8_t* intermediateBuffer = nullptr;
    std::uint64_t intermediateBufferSize = 0;
#ifndef FAKE_ATB_OLDER_PACK
    std::uint8_t* argsDeviceBuffer = nullptr;
    std::uint8_t* argsHostBuffer = nullptr;
#endif
    Context* context = nullptr;
#ifndef FAKE_ATB_OLDER_PACK
    void* mstxMemRegister = nullptr;
#endif
};

#ifdef FAKE_ATB_OLDER_PACK
static_assert(sizeof(RunnerVariantPack) == 13824);
#else
static_assert(sizeof(RunnerVariantPack) == 13848);
#endif
#ifdef FAKE_ATB_OLDER_MKI
static_assert(sizeof(Mki::Tensor) == 432);
#else
static_assert(sizeof(Mki::Tensor) == 464);
#endif

// Where another tool decides what is saved. FAKE_ATB_SAVE=1 in the environment stands for one that saves everything.
class Probe {
public:
    static bool IsTensorNeedSave(const std::vector<std::int64_t>& ids, const std::string& operation);
    static bool IsSaveTensorDesc();
    static bool IsExecuteCountInRange(const std::uint64_t count);
    static bool IsSaveTensorBefore();
    static bool IsSaveTensorAfter();
};

class StoreUtil {
public:
    static void SaveLaunchParam(void* stream, const Mki::LaunchParam& launch, const std::string& folder);
    static void SaveVariantPack(void* stream, const RunnerVariantPack& pack, const std::string& folder);
};

class Runner {
public:
    explicit Runner(const std::string& name) : folder_(name) {}
    virtual ~Runner();
    std::string GetOperationName() const;
    Status Execute(RunnerVariantPack& pack);
    void* GetExecuteStream(Context* context) const;
    void SetRunnerInfo(const std::string& operation, const std::vector<std::int64_t>& ids);
    virtual void SetSaveTensorDir(const std::string& folder);
    std::string GetSaveTensorDir() const;

protected:
    bool IsSaveTensor() const;
    virtual Status ExecuteImpl(RunnerVariantPack& pack) = 0;

    std::vector<std::int64_t> ids_;
    std::size_t execute_count_ = 0;
    std::string folder_;

private:
    std::string operation_;
    bool is_saved_ = false;
};

// The calls that really happened.
struct Counts {
    int executed;
    int saved_launches;
    int saved_packs;
    int computed_kernels;
};
Counts& counts();

// Adds its inputs, element by element, into its output: one kernel that adds and one that copies.
class AddRunner : public Runner {
public:
    AddRunner() : Runner("AddRunner") {}

protected:
    Status ExecuteImpl(RunnerVariantPack& pack) override;

private:
    void run_kernel(RunnerVariantPack& pack, std::size_t node, const std::string& name, Mki::LaunchParam& launch);
};

// Fails as its status or by an exception.
class FailingRunner : public Runner {
public:
    explicit FailingRunner(bool throws) : Runner("FailingRunner"), throws_(throws) {}

protected:
    Status ExecuteImpl(RunnerVariantPack& pack) override;

private:
    bool throws_;
};

// Executes other runners on the same pack.
class GraphRunner : public Runner {
public:
    GraphRunner() : Runner("GraphRunner") {}
    void add(Runner* node) { nodes_.push_back(node); }
    void SetSaveTensorDir(const std::string& folder) override;

protected:
    Status ExecuteImpl(RunnerVariantPack& pack) override;

private:
    std::vector<Runner*> nodes_;
};

// The class that a user calls: it sets the runner up, and executes it. With pools, the workspace is announced through
// mstx.
class Operation {
public:
    Operation(Runner& runner, const std::string& name, std::int64_t id);
    void setup();
    Status execute(RunnerVariantPack& pack);

private:
    Runner& runner_;
    std::string name_;
    std::int64_t id_;
    std::size_t execute_count_ = 0;
};

}  // namespace atb
