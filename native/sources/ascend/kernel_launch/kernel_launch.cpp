#include "sources/ascend/kernel_launch/kernel_launch.h"

#include <time.h>

#include <cstdlib>
#include <cstring>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "sources/ascend/acl/acl.h"
#include "sources/ascend/kernel_launch/kernel_names.h"
#include "sources/ascend/kernel_launch/kernel_reports.h"
#include "sources/ascend/kernel_launch/task_channel.h"
#include "sources/ascend/npu.h"
#include "watch/watch.h"

namespace msmemscope::kernel_launch {

namespace {

using Handle = void*;
using Data = const void*;
using Word = std::uint32_t;

struct Launch {
    unsigned depth;  // launch functions call each other: one launch
    std::uint64_t began_ns;
    bool is_watched;
    // Of the kernel, once the runtime has reported it; 0 until then.
    std::uint64_t kernel_name;
    format::Device device;
};
__attribute__((tls_model("initial-exec"))) __thread Launch this_launch;

__attribute__((noinline)) void begin_launch() noexcept {
    const KeepErrno keep_errno;
    if (recorder::epoch() == 0) {
        const RecordingScope made_ready(false);  // a forked child notices here that it is one
    }
    if (!recorder::is_selected(kSelectLaunch)) {
        return;
    }
    register_callbacks();
    const int device = acl::current_device();
    if (observes_npu(device)) {
        open_task_channel(device);
    }
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    this_launch.began_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
    if (watch::watches_kernels()) {
        this_launch.is_watched = true;
        this_launch.kernel_name = 0;
        watch::kernel_begins();
    }
}

__attribute__((noinline)) void end_watching() noexcept {
    this_launch.is_watched = false;
    const char* const name = kernel_names().find(this_launch.kernel_name);
    watch::kernel_ends(name == nullptr ? "" : name, name == nullptr ? 0 : std::strlen(name), this_launch.device);
}

// A launch function runs on this thread.
class LaunchCall {
public:
    LaunchCall() noexcept {
        if (this_launch.depth++ == 0 && is_wanted()) {
            begin_launch();
        }
    }
    ~LaunchCall() {
        if (--this_launch.depth == 0) {
            this_launch.began_ns = 0;
            if (__builtin_expect(this_launch.is_watched, 0)) {
                end_watching();
            }
        }
    }
    LaunchCall(const LaunchCall&) = delete;
    LaunchCall& operator=(const LaunchCall&) = delete;
};

// Number: tells functions of one signature apart.
template <unsigned Number, typename... Arguments>
int launch(const Call<int(Arguments...)>& call, Arguments... arguments) {
    const LaunchCall this_call;
    return call.real(arguments...);
}

std::uint64_t hash_id(const Call<std::uint64_t(const char*, std::size_t)>& call, const char* text, std::size_t bytes) {
    if (is_wanted()) {
        const KeepErrno keep_errno;
        register_callbacks();
    }
    // Another profiler may answer, with numbers of its own.
    const std::uint64_t id = call.real(text, bytes);
    if (id != 0 && text != nullptr && is_wanted()) {
        kernel_names().add(id, text, bytes);
    }
    return id;
}

// A module is there that will report: the callbacks have to be in place before it asks for the numbers of names.
std::int32_t register_module(const Call<std::int32_t(std::uint32_t, Handle)>& call, std::uint32_t module,
                             Handle handler) {
    if (is_wanted()) {
        const KeepErrno keep_errno;
        register_callbacks();
    }
    return call.real(module, handler);
}

// In the lists of arguments, the first Word behind the first argument is the number of blocks. The last Handle is the
// stream, unless the comment names its place or other arguments behind it.
constexpr Hook kHookList[] = {
    // stub, blocks, arguments, their bytes, description
    hook<&launch<0, Data, Word, Handle, Word, Handle, Handle>>(nullptr, "rtKernelLaunch", "kernel_launch"),
    // kernel, tiling key, blocks, arguments, description; behind the stream: configuration
    hook<&launch<1, Handle, std::uint64_t, Word, Handle, Handle, Handle, Data>>(nullptr, "rtKernelLaunchWithHandleV2",
                                                                                "kernel_launch"),
    // stub, blocks, arguments, description; behind the stream: flags, configuration
    hook<&launch<2, Data, Word, Handle, Handle, Handle, Word, Data>>(nullptr, "rtKernelLaunchWithFlagV2",
                                                                     "kernel_launch"),
    // type of kernel, name, blocks, arguments, description; behind the stream: flags
    hook<&launch<3, Word, const char*, Word, Data, Handle, Handle, Word>>(nullptr, "rtAicpuKernelLaunchExWithArgs",
                                                                          "kernel_launch"),
    // function, blocks, arguments
    hook<&launch<4, Handle, Word, Handle, Handle>>(nullptr, "rtLaunchKernelByFuncHandle", "kernel_launch"),
    // function, blocks, arguments; behind the stream: configuration
    hook<&launch<5, Handle, Word, Handle, Handle, Data>>(nullptr, "rtLaunchKernelByFuncHandleV2", "kernel_launch"),
    // function, blocks, arguments, their bytes
    hook<&launch<6, Handle, Word, Data, std::size_t, Handle>>(nullptr, "aclrtLaunchKernelImpl", "kernel_launch"),
    // function, blocks, arguments, their bytes, configuration
    hook<&launch<7, Handle, Word, Data, std::size_t, Handle, Handle>>(nullptr, "aclrtLaunchKernelV2Impl",
                                                                      "kernel_launch"),
    // function, blocks, stream, configuration, arguments, reserved
    hook<&launch<8, Handle, Word, Handle, Handle, Handle, Handle>>(nullptr, "aclrtLaunchKernelWithConfig",
                                                                   "kernel_launch"),
    // function, blocks, stream, configuration, arguments, their bytes, placeholders, their number
    hook<&launch<9, Handle, Word, Handle, Handle, Handle, std::size_t, Handle, std::size_t>>(
        nullptr, "aclrtLaunchKernelWithHostArgs", "kernel_launch"),
    hook<&hash_id>(nullptr, "MsprofGetHashId", "kernel_launch"),
    hook<&register_module>(nullptr, "MsprofRegisterCallback", "kernel_launch"),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

std::uint64_t launch_began_ns() noexcept { return this_launch.began_ns; }

void note_launched_kernel(std::uint64_t kernel_name, format::Device device) noexcept {
    this_launch.kernel_name = kernel_name;
    this_launch.device = device;
}

void finish() noexcept {
    const KeepErrno keep_errno;
    close_task_channels();
}

}  // namespace msmemscope::kernel_launch
