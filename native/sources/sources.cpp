// Every source: its hooks, and the devices that it knows. A new one gets a line in each list.
#include <iterator>

#include "core/writer/device_support.h"
#include "interpose/hook.h"
#include "sources/ascend/acl/acl.h"
#include "sources/ascend/atb/atb.h"
#include "sources/ascend/hal/hal.h"
#include "sources/ascend/kernel_launch/kernel_launch.h"
#include "sources/ascend/mstx/mstx.h"
#include "sources/ascend/npu_support.h"
#include "sources/cuda/caching_allocator.h"
#include "sources/cuda/cuda_support.h"
#include "sources/cuda/driver.h"
#include "sources/cuda/graph_capture.h"
#include "sources/cuda/kernels.h"
#include "sources/cuda/nvtx.h"
#include "sources/host_heap/host_heap.h"
#include "sources/torch_cpu/dispatch_modes.h"
#include "sources/torch_cpu/host_memory.h"
#include "sources/torch_cpu/torch_cpu.h"

namespace msmemscope {
namespace {

constexpr const HookTable* kTables[] = {
    &torch_cpu::kHooks,
    &dispatch_modes::kHooks,
    &hal::kHooks,
    &acl::kHooks,
    &atb::kHooks,
    &kernel_launch::kHooks,
    &mstx::kHooks,
    &host_heap::kHooks,
    &cuda::kDriverHooks,
    &cuda::kKernelHooks,
    &cuda::kGraphCaptureHooks,
    &cuda::kNvtxHooks,
    &cuda::kCachingAllocatorHooks,  // in front of the driver's, where both have a function
};
static_assert(std::size(kTables) <= HookTables::kMost);

constexpr const DeviceSupport* kSupports[] = {&torch_cpu::kHostSupport, &ascend::kNpuSupport, &cuda::kCudaSupport};

}  // namespace

// Constant-initialised, as the hooks are: used before constructors have run.
constexpr HookTables kHookTables{kTables, std::size(kTables)};
constexpr DeviceSupports kDeviceSupports{kSupports, std::size(kSupports)};

}  // namespace msmemscope
