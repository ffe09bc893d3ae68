// libopapi.so: the two entry points of every aclnn function that torch_npu looks up.
//
// Phase one (aclnnXGetWorkspaceSize) differs from function to function, so its symbol is an indirect function: the
// dynamic linker asks resolve_plan() once, at the first lookup, which code stands behind it. That is
//   - with compute=none: a function that does nothing, but for the few that need device memory on hardware, which ask
//     for a workspace, and those that programs count with (small_operators.h);
//   - with compute=cpu: the kernel from the library of kernels, loaded at the first lookup, when libtorch is there; and
//     for a function without a kernel one that fails and says so.
// Phase two (aclnnX) is the same code for all: it launches a kernel, which runs what phase one left.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "device_failures.h"
#include "kernel_launch.h"
#include "objects.h"
#include "on_stream.h"
#include "operator_abi.h"
#include "runtime_errors.h"
#include "settings.h"
#include "small_operators.h"

namespace virtual_npu {
namespace {

constexpr const char* kFunctionNames[] = {
#define ACLNN_FUNCTION(name) #name,
#define ACLNN_LARGEST_WORKSPACE(name) #name,
#include "function_names.inc"
#undef ACLNN_FUNCTION
#undef ACLNN_LARGEST_WORKSPACE
};

using Plan = void (*)();

void set_view_shape(aclTensor* tensor, const int64_t* sizes, uint64_t dimensions) {
    delete[] tensor->sizes;
    delete[] tensor->strides;
    tensor->dimensions = static_cast<uint32_t>(dimensions);
    tensor->sizes = new int64_t[dimensions + 1];
    tensor->strides = new int64_t[dimensions + 1];
    int64_t stride = 1;
    for (uint64_t dimension = dimensions; dimension-- > 0;) {
        tensor->sizes[dimension] = sizes[dimension];
        tensor->strides[dimension] = stride;
        stride *= sizes[dimension];
    }
}

// Phase one ends with an error, which the caller sees at its call.
int refuse(int status, const char* text) {
    virtual_npu_call_refused(virtual_npu_current_driver_device(), text);
    virtual_npu_set_error(text);
    return status;
}

int refuse_arguments(const char* text) { return refuse(kInvalidArgument, text); }

int device_status() { return virtual_npu_stream_status(nullptr) == kAclSuccess ? kSuccess : kRuntimeError; }

// Phase two ends with an error, which may come to light long after the call.
int fail(int32_t device, const char* text) {
    std::fprintf(stderr, "[vnpu] %s\n", text);
    virtual_npu_task_failed(device, text);
    virtual_npu_set_error(text);
    return kInnerError;
}

// --- compute=cpu

class Kernels {
public:
    static Kernels& instance() {
        static auto* kernels = new Kernels();
        return *kernels;
    }

    Plan find(const char* function) const {
        const auto place = plans_.find(function);
        return place == plans_.end() ? nullptr : place->second;
    }
    const std::string& problem() const { return problem_; }

private:
    Kernels() {
        const std::string& path = settings().kernels;
        if (path.empty()) {
            problem_ = "VNPU_KERNELS is not set; start the program with `vnpu run`, or with virtual_npu.activate()";
            return;
        }
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) {
            problem_ = std::string("the compiled kernels could not be loaded: ") + dlerror();
            return;
        }
        const auto entry = reinterpret_cast<KernelsEntry>(dlsym(library, "virtual_npu_kernels"));
        static const KernelHost host{settings().workspace_bytes,
                                     &device_status,
                                     &refuse_arguments,
                                     &share_object,
                                     &release_object,
                                     &set_view_shape};
        const KernelTable* table = entry == nullptr ? nullptr : entry(&host);
        if (table == nullptr || table->abi_version != kKernelAbiVersion) {
            problem_ = path + " was compiled for another version of virtual_npu; remove it, and it is compiled again";
            return;
        }
        for (uint32_t index = 0; index < table->count; ++index) {
            plans_[table->kernels[index].function] = table->kernels[index].plan;
        }
    }

    std::unordered_map<std::string, Plan> plans_;
    std::string problem_;
};

// Of the hundreds of functions each has code of its own only where the number of the function goes in.
int refuse_missing(int index) {
    const std::string function = kFunctionNames[index];
    const std::string& problem = Kernels::instance().problem();
    const std::string text =
        function + (problem.empty() ? ": this operator has no kernel in the virtual NPU (compute=cpu). Run with "
                                      "compute=none if only memory matters, keep the operation on the CPU, or add "
                                      "a kernel: see vnpu/README.md"
                                    : ": " + problem);
    std::fprintf(stderr, "[vnpu] %s\n", text.c_str());
    return refuse(kInnerError, text.c_str());
}

template <int Index>
int missing() {
    return refuse_missing(Index);
}

// --- compute=none

int does_nothing() { return kSuccess; }

// An operator that on hardware asks for device memory of its own. `Before` is the number of arguments before the
// workspace's size; all that come in integer registers or on the stack after them are the same on every ABI here.
template <typename... Before>
int asks_for_workspace(Before..., uint64_t* workspace_bytes, void**) {
    if (workspace_bytes == nullptr) return refuse_arguments("there is no room for the size of the workspace");
    *workspace_bytes = settings().workspace_bytes;
    return kSuccess;
}

using T = const void*;  // any object
const std::unordered_map<std::string, Plan>& functions_without_compute() {
    static const auto* functions = new std::unordered_map<std::string, Plan>{
        {"aclnnMm", reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, int8_t>)},
        {"aclnnMatmul", reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, int8_t>)},
        {"aclnnBatchMatMul", reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, int8_t>)},
        {"aclnnAddmm", reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, int8_t>)},
        {"aclnnBaddbmm", reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, int8_t>)},
        {"aclnnConvolution",
         reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, bool, T, int64_t, T, int8_t>)},
        {"aclnnConvolutionBackward",
         reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, T, bool, T, int64_t, T, int8_t, T, T, T>)},
        {"aclnnFlashAttentionScore",
         reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, T, T, double, double, int64_t, int64_t, int64_t,
                                                    T, int64_t, int64_t, T, T, T, T>)},
        {"aclnnFlashAttentionScoreGrad",
         reinterpret_cast<Plan>(&asks_for_workspace<T, T, T, T, T, T, T, T, T, T, T, T, T, double, double, int64_t,
                                                    int64_t, int64_t, T, int64_t, int64_t, T, T, T, T>)},
    };
    return *functions;
}

Plan find_plan(int index, int (*missing)()) {
    const char* function = kFunctionNames[index];
    if (settings().compute == Compute::kNone) {
        if (const Plan small = find_small_operator(function)) return small;
        const auto place = functions_without_compute().find(function);
        return place == functions_without_compute().end() ? reinterpret_cast<Plan>(&does_nothing) : place->second;
    }
    const Plan kernel = Kernels::instance().find(function);
    return kernel != nullptr ? kernel : reinterpret_cast<Plan>(missing);
}

template <int Index>
Plan resolve_plan() {
    return find_plan(Index, &missing<Index>);
}

// Writes behind the last output, as a kernel with a wrong tiling does: memory corruption on demand.
void overrun(const Execution& execution) {
    static std::atomic<uint64_t> calls{0};
    const Faults& faults = settings().faults;
    if (faults.overrun_function != execution.function || ++calls != faults.overrun_call) return;
    void* end = execution.end_of_output(&execution);
    if (end == nullptr) return;
    std::memset(end, 0xa5, faults.overrun_bytes);
    std::fprintf(stderr, "[vnpu] injected fault: call %llu of %s wrote %llu bytes behind its output at %p\n",
                 static_cast<unsigned long long>(faults.overrun_call), execution.function,
                 static_cast<unsigned long long>(faults.overrun_bytes), end);
}

// Which functions ran and how often, for whoever asks: the tests say with it what they have covered.
std::atomic<bool> counting{false};
std::mutex counts_guard;
std::map<std::string, uint64_t>& counts() {
    static auto* table = new std::map<std::string, uint64_t>();
    return *table;
}

void count_call(const char* function) {
    const std::lock_guard<std::mutex> lock(counts_guard);
    ++counts()[function];
}

// What is launched as the arguments of an operator's kernel.
struct Work {
    Execution* execution;  // null with compute=none, but for small operators
    int32_t device;
    bool has_caller;  // who gets the status
    int status;
};

void do_work(void* arguments) {
    auto& work = *static_cast<Work*>(arguments);
    Execution* execution = work.execution;
    if (execution == nullptr) return;
    char message[1024];
    work.status = execution->run(execution, message, sizeof message);
    if (work.status == kSuccess) {
        if (!work.has_caller) overrun(*execution);
    } else if (work.has_caller) {
        work.status = fail(work.device, message);
    } else {
        std::fprintf(stderr, "[vnpu] %s\n", message);
        virtual_npu_later_task_failed(work.device, message);
    }
}

// The work outlives the call: the execution goes over to it, and so do the arguments.
void* keep_work(void* arguments) {
    auto& work = *static_cast<Work*>(arguments);
    if (work.execution != nullptr) work.execution->share(work.execution);
    auto* kept = new Work(work);
    kept->has_caller = false;
    work.execution = nullptr;
    return kept;
}

void release_work(void* kept) {
    auto* work = static_cast<Work*>(kept);
    if (work->execution != nullptr) work->execution->destroy(work->execution);
    delete work;
}

// The kernel of an operator, under a name of the form that real ones have: "Add_06a6d4f1_0" for aclnnAdd.
void* kernel_of(const char* function) {
    uint32_t hash = 0x811c9dc5;  // FNV-1a
    for (const char* letter = function; *letter != '\0'; ++letter) {
        hash = (hash ^ static_cast<unsigned char>(*letter)) * 0x01000193;
    }
    constexpr size_t kPrefix = sizeof("aclnn") - 1;
    char name[256];
    std::snprintf(name, sizeof name, "%s_%08x_0",
                  std::strncmp(function, "aclnn", kPrefix) == 0 ? function + kPrefix : function, hash);
    return virtual_npu_kernel_function(name, do_work, keep_work, release_work);
}

// Each operator is one launch on its stream, which a tool sees as on hardware.
int execute_operator(void* kernel, Execution* execution, void* stream) {
    if (execution != nullptr && counting.load(std::memory_order_relaxed)) count_call(execution->function);
    Work work{execution, virtual_npu_device_of_stream(stream), true, kSuccess};
    const int launched = rtLaunchKernelByFuncHandleV2(kernel, 1, &work, stream, nullptr);
    if (launched == kRuntimeDeviceFailed) {
        virtual_npu_stream_status(stream);  // leaves the text
        work.status = kRuntimeError;
    } else if (launched == kRuntimeNoContext) {
        work.status = refuse(kInnerError, "an operator was called on a thread without a device (aclrtSetDevice)");
    } else if (launched != kRuntimeSuccess) {
        stream_result(launched, "an operator is launched");
        const std::string text = aclGetRecentErrMsg();
        work.status = refuse(kInnerError, text.c_str());
    }
    if (work.execution != nullptr) {
        if (work.status == kSuccess) overrun(*execution);  // when the launch has returned, for tools that look then
        execution->destroy(execution);
    }
    return work.status;
}

// Made once for each function; two threads that come first make it twice, which is the same kernel.
void* kernel_at(int index) {
    static std::atomic<void*> kernels[std::size(kFunctionNames)];
    void* kernel = kernels[index].load(std::memory_order_acquire);
    if (kernel == nullptr) {
        kernel = kernel_of(kFunctionNames[index]);
        kernels[index].store(kernel, std::memory_order_release);
    }
    return kernel;
}

int execute(int index, void* executor, void* stream) {
    const auto* execution = static_cast<const Execution*>(executor);
    const bool is_right = execution == nullptr ? settings().compute == Compute::kNone  // which leaves nothing to do
                                               : execution->kind == ObjectKind::kExecution;
    if (!is_right) {
        const std::string text = std::string(kFunctionNames[index]) + ": this is no executor from its phase one";
        return refuse_arguments(text.c_str());
    }
    return execute_operator(kernel_at(index), static_cast<Execution*>(executor), stream);
}

}  // namespace

// An operator of the older interface, whose arguments are all pointers. Plan as for an aclnn function, which has the
// workspace's size and the executor behind them.
template <size_t... Index>
int plan_with(Plan plan, const void* const* arguments, void** executor, std::index_sequence<Index...>) {
    uint64_t workspace_bytes = 0;
    using Function = int (*)(std::decay_t<decltype(arguments[Index])>..., uint64_t*, void**);
    return reinterpret_cast<Function>(plan)(arguments[Index]..., &workspace_bytes, executor);
}

constexpr size_t kMostArguments = 32;

template <size_t Count = 1>
int plan_by_count(Plan plan, const void* const* arguments, uint64_t count, void** executor) {
    if constexpr (Count > kMostArguments) {
        return kInvalidArgument;
    } else {
        if (count != Count) return plan_by_count<Count + 1>(plan, arguments, count, executor);
        return plan_with(plan, arguments, executor, std::make_index_sequence<Count>());
    }
}

// Not of the real library: for libacl_op_compiler.so.
extern "C" __attribute__((visibility("default"))) int virtual_npu_execute_by_name(const char* name,
                                                                                  const void* const* arguments,
                                                                                  uint64_t count, void* stream) {
    if (settings().compute == Compute::kNone) return kSuccess;
    const Plan plan = Kernels::instance().find(name);
    if (plan == nullptr) return kKernelMissing;
    void* executor = nullptr;
    const int status = plan_by_count(plan, arguments, count, &executor);
    return status == kSuccess ? execute_operator(kernel_of(name), static_cast<Execution*>(executor), stream) : status;
}

// Not of the real library: begins to count the calls of functions with a kernel, anew at each call of this.
extern "C" __attribute__((visibility("default"))) void virtual_npu_count_calls() {
    const std::lock_guard<std::mutex> lock(counts_guard);
    counts().clear();
    counting = true;
}

// Writes lines of "function count", as many as fit; returns the bytes that all of them need, with the final zero.
extern "C" __attribute__((visibility("default"))) uint64_t virtual_npu_call_counts(char* text, uint64_t room) {
    std::string lines;
    {
        const std::lock_guard<std::mutex> lock(counts_guard);
        for (const auto& [function, count] : counts()) lines += function + ' ' + std::to_string(count) + '\n';
    }
    if (room > 0) text[lines.copy(text, room - 1)] = '\0';
    return lines.size() + 1;
}

// The position of a name in the list is its index.
enum FunctionIndex : int {
#define ACLNN_FUNCTION(name) name##Index,
#define ACLNN_LARGEST_WORKSPACE(name) name##LargestIndex,
#include "function_names.inc"
#undef ACLNN_FUNCTION
#undef ACLNN_LARGEST_WORKSPACE
};

}  // namespace virtual_npu

#define ACLNN_FUNCTION(name)                                                                                    \
    extern "C" __attribute__((visibility("hidden"), used)) virtual_npu::Plan resolve_##name() {                 \
        return virtual_npu::resolve_plan<virtual_npu::name##Index>();                                           \
    }                                                                                                           \
    extern "C" __attribute__((visibility("default"), ifunc("resolve_" #name))) void name##GetWorkspaceSize();   \
    extern "C" __attribute__((visibility("default"))) int name(void*, uint64_t, void* executor, void* stream) { \
        return virtual_npu::execute(virtual_npu::name##Index, executor, stream);                                \
    }
// The workspace that is enough for every length: a phase one without a phase two. Here it does not depend on lengths.
#define ACLNN_LARGEST_WORKSPACE(name) \
    extern "C" __attribute__((visibility("default"), ifunc("resolve_" #name))) void name##GetMaxWorkspaceSize();
#include "function_names.inc"
#undef ACLNN_FUNCTION
#undef ACLNN_LARGEST_WORKSPACE
