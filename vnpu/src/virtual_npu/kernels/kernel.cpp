#include "kernel.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdio>
#include <stdexcept>

namespace virtual_npu {
namespace {

const KernelHost* kernel_host = nullptr;

std::vector<KernelDescription>& registered() {
    static auto* kernels = new std::vector<KernelDescription>();  // filled before main, read until the end
    return *kernels;
}

}  // namespace

const KernelHost& host() { return *kernel_host; }

void register_kernel(const char* function, const char* source, void (*plan)()) {
    registered().push_back({function, source, plan});
}

void* end_of(const aclTensor* tensor) {
    if (tensor == nullptr) return nullptr;
    int64_t last = tensor->offset;
    for (uint32_t dimension = 0; dimension < tensor->dimensions; ++dimension) {
        if (tensor->sizes[dimension] == 0) return nullptr;
        last += (tensor->sizes[dimension] - 1) * tensor->strides[dimension];
    }
    const auto element_bytes = static_cast<int64_t>(c10::elementSize(element_type(tensor->data_type)));
    return static_cast<char*>(tensor->storage) + (last + 1) * element_bytes;
}

void with_guards(void (*body)(void*), void* context) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::DisableRecordFunctionGuard no_record_function;
    const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::DispatchKeySet(
        {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::AutocastCPU,
         c10::DispatchKey::AutocastPrivateUse1, c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
         c10::DispatchKey::FuncTorchDynamicLayerBackMode}));
    body(context);
}

int run_guarded(const char* function, void (*body)(void*), void* context, char* message, size_t message_size) {
    message[0] = '\0';
    try {
        with_guards(body, context);
        return kSuccess;
    } catch (const c10::Error& error) {
        std::snprintf(message, message_size, "%s: %s", function, error.what_without_backtrace());
    } catch (const std::exception& error) {
        std::snprintf(message, message_size, "%s: %s", function, error.what());
    } catch (...) {
        std::snprintf(message, message_size, "%s: an unknown exception", function);
    }
    return kInnerError;
}

}  // namespace virtual_npu

extern "C" __attribute__((visibility("default"))) const virtual_npu::KernelTable* virtual_npu_kernels(
    const virtual_npu::KernelHost* host) {
    using namespace virtual_npu;
    kernel_host = host;
    static const KernelTable table{kKernelAbiVersion, static_cast<uint32_t>(registered().size()), registered().data()};
    return &table;
}
