// libatb.so: the link-time surface of Ascend Transformer Boost that torch_npu's plugin needs. Of its fused kernels for
// inference three compute, on the host: rotary embedding, writing into a cache of keys and values, and a product that
// is added to a matrix. Making another one fails, with its name.
#include "atb_interface.h"
#include "operations.h"
#include "runtime_errors.h"

namespace atb {
namespace {

class OnlyContext final : public Context {
public:
    Status SetExecuteStream(void* stream) override {
        streams_.assign(1, stream);
        return kSuccess;
    }
    void* GetExecuteStream() const override { return streams_.empty() ? nullptr : streams_.front(); }
    Status SetAsyncTilingCopyStatus(bool enable) override {
        copies_ = enable;
        return kSuccess;
    }
    bool GetAsyncTilingCopyStatus() const override { return copies_; }
    Status SetExecuteStreams(const std::vector<void*>& streams) override {
        streams_ = streams;
        return kSuccess;
    }
    std::vector<void*> GetExecuteStreams() override { return streams_; }
    Status SetExecuteType(ExecuteType type) override {
        type_ = type;
        return kSuccess;
    }
    ExecuteType GetExecuteType() override { return type_; }

private:
    std::vector<void*> streams_;
    bool copies_ = false;
    ExecuteType type_ = kExecuteNormal;
};

}  // namespace

#define EXPORTED __attribute__((visibility("default")))

EXPORTED Status CreateContext(Context** context) {
    *context = new OnlyContext;
    return kSuccess;
}
EXPORTED Status DestroyContext(Context* context) {
    delete context;
    return kSuccess;
}
EXPORTED Status DestroyOperation(Operation* operation) {
    delete operation;
    return kSuccess;
}

namespace Utils {
EXPORTED uint64_t GetTensorSize(const Tensor& tensor) { return bytes_of(tensor.desc); }
}  // namespace Utils

template <typename Param>
Status CreateOperation(const Param&, Operation** operation);

template <>
EXPORTED Status CreateOperation<infer::RopeParam>(const infer::RopeParam& param, Operation** operation) {
    *operation = make_rope(param);
    return kSuccess;
}

template <>
EXPORTED Status CreateOperation<infer::ReshapeAndCacheParam>(const infer::ReshapeAndCacheParam& param,
                                                             Operation** operation) {
    *operation = nullptr;
    if (param.compression != 0 || param.kinds != 0) {
        virtual_npu::fail(virtual_npu::kAclUnsupported,
                          "EE1001: the ATB operation ReshapeAndCache has no kernel for compressed caches here");
        return kErrorInvalidParameter;
    }
    *operation = make_reshape_and_cache();
    return kSuccess;
}

template <>
EXPORTED Status CreateOperation<infer::LinearParam>(const infer::LinearParam& param, Operation** operation) {
    *operation = nullptr;
    if (!param.accumulates || param.has_bias || param.kind != 0 || param.quantization != 0) {
        virtual_npu::fail(virtual_npu::kAclUnsupported,
                          "EE1001: the ATB operation Linear has a kernel in the virtual NPU only where it accumulates");
        return kErrorInvalidParameter;
    }
    *operation = make_accumulating_linear(param);
    return kSuccess;
}

#define WITHOUT_KERNEL(NAME)                                                                                \
    template <>                                                                                             \
    EXPORTED Status CreateOperation<infer::NAME##Param>(const infer::NAME##Param&, Operation** operation) { \
        *operation = nullptr;                                                                               \
        virtual_npu::fail(virtual_npu::kAclUnsupported,                                                     \
                          "EE1001: the ATB operation " #NAME " has no kernel in the virtual NPU");          \
        return kErrorInvalidParameter;                                                                      \
    }
WITHOUT_KERNEL(Elewise)
WITHOUT_KERNEL(RmsNorm)
WITHOUT_KERNEL(GroupTopk)
WITHOUT_KERNEL(SelfAttention)
WITHOUT_KERNEL(PagedAttention)
#undef WITHOUT_KERNEL

}  // namespace atb
