#include "observers/kernel_launch/kernel_launch.h"

#include <time.h>

#include <cstdlib>
#include <cstring>

#include "interpose/real_function.h"
#include "observers/acl/acl.h"
#include "observers/kernel_launch/kernel_names.h"
#include "observers/kernel_launch/kernel_reports.h"
#include "observers/kernel_launch/task_channel.h"
#include "watch/watch.h"
#include "writer/keep_errno.h"
#include "writer/recorder.h"

namespace msmemscope::kernel_launch {

void* next_functions[kFunctions];

namespace {

// Libraries that have a function, by version of CANN.
constexpr const char* kRuntime[] = {"libruntime.so", "libruntime_v100.so", "libruntime_common.so"};
constexpr const char* kInterface[] = {"libascendcl.so", "libacl_rt.so", "libruntime.so"};
constexpr const char* kImplementation[] = {"libascendcl_impl.so", "libacl_rt_impl.so", "libruntime.so"};
constexpr const char* kProfiler[] = {"libprofapi.so", "libprofapi.so", "libprofapi.so"};

// What the functions of a runtime that lacks one return.
constexpr int kRuntimeReserved = 0x99;
constexpr int kInterfaceFailure = 500003;
constexpr int kProfilerFailure = -1;

struct Launch {
    unsigned depth;  // launch functions call each other: one launch
    std::uint64_t began_ns;
    bool is_watched;
    // Of the kernel, once the runtime has reported it; 0 until then.
    std::uint64_t kernel_name;
    std::int8_t device;
};
__attribute__((tls_model("initial-exec"))) __thread Launch this_launch;

class LaunchCall {
public:
    LaunchCall() noexcept {
        if (this_launch.depth++ == 0 && is_wanted()) {
            begin();
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

private:
    __attribute__((noinline)) static void begin() noexcept {
        const KeepErrno keep_errno;
        if (recorder::epoch() == 0) {
            const RecordingScope made_ready(false);  // a forked child notices here that it is one
        }
        if (!recorder::is_selected(kSelectLaunch)) {
            return;
        }
        register_callbacks();
        const int device = acl::current_device();
        if (recorder::settings().observes_npu(device)) {
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
    __attribute__((noinline)) static void end_watching() noexcept {
        this_launch.is_watched = false;
        const char* const name = kernel_names().find(this_launch.kernel_name);
        watch::kernel_ends(name == nullptr ? "" : name, name == nullptr ? 0 : std::strlen(name), this_launch.device);
    }
};

template <std::size_t Index, typename Function>
Function* find(const char* const (&libraries)[3]) noexcept {
    void*& next = next_functions[Index];
    for (const char* library : libraries) {
        void* const found = __atomic_load_n(&next, __ATOMIC_ACQUIRE);
        if (__builtin_expect(found != nullptr, 1)) {
            return reinterpret_cast<Function*>(found);
        }
        const KeepErrno keep_errno;
        __atomic_store_n(&next, find_real_function(library, kHooks[Index].function), __ATOMIC_RELEASE);
    }
    return reinterpret_cast<Function*>(__atomic_load_n(&next, __ATOMIC_ACQUIRE));
}

template <std::size_t Index, typename... Arguments>
int call(const char* const (&libraries)[3], int missing, Arguments... arguments) {
    const auto real = find<Index, int(Arguments...)>(libraries);
    if (real == nullptr) {
        return missing;
    }
    const LaunchCall launch;
    return real(arguments...);
}

}  // namespace

std::uint64_t launch_began_ns() noexcept { return this_launch.began_ns; }

void note_launched_kernel(std::uint64_t kernel_name, std::int8_t device) noexcept {
    this_launch.kernel_name = kernel_name;
    this_launch.device = device;
}

void finish() noexcept {
    const KeepErrno keep_errno;
    close_task_channels();
}

int launch_stub(Data stub, std::uint32_t blocks, Handle arguments, std::uint32_t argument_bytes, Handle description,
                Handle stream) {
    return call<0>(kRuntime, kRuntimeReserved, stub, blocks, arguments, argument_bytes, description, stream);
}

int launch_with_handle(Handle handle, std::uint64_t tiling_key, std::uint32_t blocks, Handle arguments,
                       Handle description, Handle stream, Data configuration) {
    return call<1>(kRuntime, kRuntimeReserved, handle, tiling_key, blocks, arguments, description, stream,
                   configuration);
}

int launch_with_flag(Data stub, std::uint32_t blocks, Handle arguments, Handle description, Handle stream,
                     std::uint32_t flags, Data configuration) {
    return call<2>(kRuntime, kRuntimeReserved, stub, blocks, arguments, description, stream, flags, configuration);
}

int launch_on_ai_cpu(std::uint32_t kernel_type, const char* name, std::uint32_t blocks, Data arguments,
                     Handle description, Handle stream, std::uint32_t flags) {
    return call<3>(kRuntime, kRuntimeReserved, kernel_type, name, blocks, arguments, description, stream, flags);
}

int launch_function(Handle function, std::uint32_t blocks, Handle arguments, Handle stream) {
    return call<4>(kRuntime, kRuntimeReserved, function, blocks, arguments, stream);
}

int launch_function_v2(Handle function, std::uint32_t blocks, Handle arguments, Handle stream, Data configuration) {
    return call<5>(kRuntime, kRuntimeReserved, function, blocks, arguments, stream, configuration);
}

int acl_launch(Handle function, std::uint32_t blocks, Data arguments, std::size_t argument_bytes, Handle stream) {
    return call<6>(kImplementation, kInterfaceFailure, function, blocks, arguments, argument_bytes, stream);
}

int acl_launch_v2(Handle function, std::uint32_t blocks, Data arguments, std::size_t argument_bytes,
                  Handle configuration, Handle stream) {
    return call<7>(kImplementation, kInterfaceFailure, function, blocks, arguments, argument_bytes, configuration,
                   stream);
}

int acl_launch_with_config(Handle function, std::uint32_t blocks, Handle stream, Handle configuration, Handle arguments,
                           Handle reserved) {
    return call<8>(kInterface, kInterfaceFailure, function, blocks, stream, configuration, arguments, reserved);
}

int acl_launch_with_host_args(Handle function, std::uint32_t blocks, Handle stream, Handle configuration,
                              Handle arguments, std::size_t argument_bytes, Handle placeholders,
                              std::size_t placeholder_count) {
    return call<9>(kInterface, kInterfaceFailure, function, blocks, stream, configuration, arguments, argument_bytes,
                   placeholders, placeholder_count);
}

std::uint64_t hash_id(const char* text, std::size_t bytes) {
    const auto real = find<10, std::uint64_t(const char*, std::size_t)>(kProfiler);
    if (real == nullptr) {
        return 0;
    }
    if (is_wanted()) {
        const KeepErrno keep_errno;
        register_callbacks();
    }
    // Another profiler may answer, with numbers of its own.
    const std::uint64_t id = real(text, bytes);
    if (id != 0 && text != nullptr && is_wanted()) {
        kernel_names().add(id, text, bytes);
    }
    return id;
}

// A module is there that will report: the callbacks have to be in place before it asks for the numbers of names.
std::int32_t register_module(std::uint32_t module, Handle handler) {
    const auto real = find<11, std::int32_t(std::uint32_t, Handle)>(kProfiler);
    if (real == nullptr) {
        return kProfilerFailure;
    }
    if (is_wanted()) {
        const KeepErrno keep_errno;
        register_callbacks();
    }
    return real(module, handler);
}

}  // namespace msmemscope::kernel_launch
