// libatb.so: the link-time surface of Ascend Transformer Boost that torch_npu's plugin needs. Its operators are fused
// kernels for inference; none is part of the virtual NPU, so making one fails, with its name.
#include <cstdint>

#include "runtime_errors.h"

namespace atb {

class Context;
class Operation;
struct Tensor;
using Status = int32_t;

constexpr Status kErrorInvalidParameter = 4;

namespace infer {
struct LinearParam;
struct ElewiseParam;
struct RmsNormParam;
struct GroupTopkParam;
struct SelfAttentionParam;
struct PagedAttentionParam;
struct ReshapeAndCacheParam;
struct RopeParam;
}  // namespace infer

#define EXPORTED __attribute__((visibility("default")))

EXPORTED Status CreateContext(Context** context) {
    // A token that is never looked into.
    static char only_context;
    *context = reinterpret_cast<Context*>(&only_context);
    return 0;
}
EXPORTED Status DestroyContext(Context*) { return 0; }
EXPORTED Status DestroyOperation(Operation*) { return 0; }

namespace Utils {
// Bytes of a tensor; asked for only with an operation, and there is none.
EXPORTED uint64_t GetTensorSize(const Tensor&) { return 0; }
}  // namespace Utils

template <typename Param>
Status CreateOperation(const Param&, Operation** operation);

#define WITHOUT_KERNEL(NAME)                                                                                \
    template <>                                                                                             \
    EXPORTED Status CreateOperation<infer::NAME##Param>(const infer::NAME##Param&, Operation** operation) { \
        *operation = nullptr;                                                                               \
        virtual_npu::fail(virtual_npu::kAclUnsupported,                                                     \
                          "EE1001: the ATB operation " #NAME " has no kernel in the virtual NPU");          \
        return kErrorInvalidParameter;                                                                      \
    }
WITHOUT_KERNEL(Linear)
WITHOUT_KERNEL(Elewise)
WITHOUT_KERNEL(RmsNorm)
WITHOUT_KERNEL(GroupTopk)
WITHOUT_KERNEL(SelfAttention)
WITHOUT_KERNEL(PagedAttention)
WITHOUT_KERNEL(ReshapeAndCache)
WITHOUT_KERNEL(Rope)
#undef WITHOUT_KERNEL

}  // namespace atb
