#include "sources/cuda/kernels.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "sources/cuda/devices.h"
#include "sources/kernel_names.h"
#include "sources/loaded_function.h"

namespace msmemscope::cuda {
namespace {

struct Dimensions {  // dim3
    unsigned x, y, z;
};
struct RuntimeConfiguration {  // cudaLaunchConfig_t
    Dimensions grid, block;
    std::size_t shared_bytes;
    void* stream;
};
struct DriverConfiguration {  // CUlaunchConfig
    Dimensions grid, block;
    unsigned shared_bytes;
    void* stream;
};

using NameOf = int(const char**, const void*);
LoadedFunction<NameOf> name_of_host("cudaFuncGetName");
LoadedFunction<NameOf> name_of_handle("cuKernelGetName");
LoadedFunction<NameOf> name_of_function("cuFuncGetName");
LoadedFunction<int()> pending_error("cudaPeekAtLastError");
LoadedFunction<int()> take_error("cudaGetLastError");
LoadedFunction<int(void*, unsigned long long*)> stream_number("cuStreamGetId");
LoadedFunction<char*(const char*, char*, std::size_t*, int*)> demangle("__cxa_demangle");

// By the kernel's address or handle. A handle of a module that was unloaded may come again: then the name is the first
// one's.
KernelNames names;

std::atomic<std::uint32_t> launches{0};

__attribute__((tls_model("initial-exec"))) __thread unsigned launches_under_way = 0;

bool is_collected() noexcept { return recorder::settings().collect_kernels && recorder::is_selected(kSelectLaunch); }

// As a person writes it, where the library of C++ is loaded: "void add<float>(float*, int)".
void add_name(std::uint64_t id, const char* name) noexcept {
    const auto plain_of = demangle.get();
    int status = 0;
    char* const plain = plain_of != nullptr ? plain_of(name, nullptr, nullptr, &status) : nullptr;
    const char* const chosen = plain != nullptr ? plain : name;
    names.add(id, chosen, std::strlen(chosen));
    std::free(plain);
}

// Null if nobody can tell. The runtime keeps the last error for the program, which looks at it behind each launch: it
// is not asked beside an error of the program, and an error of ours is taken away.
const char* asked_name(const void* kernel, LoadedFunction<NameOf>& name_of) noexcept {
    NameOf* const ask = name_of.get();
    const bool is_of_runtime = &name_of == &name_of_host;
    const auto peek = is_of_runtime ? pending_error.get() : nullptr;
    if (ask == nullptr || (is_of_runtime && (peek == nullptr || peek() != kSuccess))) {
        return nullptr;
    }
    const char* name = nullptr;
    if (ask(&name, kernel) == kSuccess) {
        return name;
    }
    if (is_of_runtime && take_error.get() != nullptr) {
        take_error.get()();
    }
    return nullptr;
}

void record(const void* kernel, LoadedFunction<NameOf>& name_of, void* stream, std::uint64_t began_ns) noexcept {
    const format::Device device = device_of_runtime(current_device());
    if (device == format::kDeviceNone || !recorder::observes(device)) {
        return;
    }
    const KeepErrno keep_errno;
    const auto id = reinterpret_cast<std::uint64_t>(kernel);
    unsigned long long number = 0;
    {
        const RecordingScope unobserved(false);
        if (names.find(id) == nullptr) {
            const char* const name = asked_name(kernel, name_of);
            if (name != nullptr) {
                add_name(id, name);
            }
        }
        const auto number_of = stream_number.get();
        if (number_of != nullptr && number_of(stream, &number) != kSuccess) {
            number = 0;
        }
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Event event{format::EventKind::kKernelLaunch};
    event.device = device;
    event.name_id = names.string_id(scope, id);
    event.extra = static_cast<std::uint64_t>(number) << 32U | launches.fetch_add(1, std::memory_order_relaxed);
    event.timestamp_ns = began_ns;
    recorder::append(scope, event);
}

// Calls the real function, and records the launch if no other launch function called this one.
template <typename Real>
int launch(Real real, const void* kernel, LoadedFunction<NameOf>& name_of, void* stream) {
    if (!is_collected()) {
        return real();
    }
    std::timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    ++launches_under_way;
    const int result = real();
    if (--launches_under_way == 0 && result == kSuccess) {
        record(kernel, name_of, stream,
               static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec));
    }
    return result;
}

constexpr char kLaunch[] = "cudaLaunchKernel";
constexpr char kLaunchOfThread[] = "cudaLaunchKernel_ptsz";
constexpr char kLaunchHandle[] = "__cudaLaunchKernel";
constexpr char kLaunchHandleOfThread[] = "__cudaLaunchKernel_ptsz";
constexpr char kLaunchTogether[] = "cudaLaunchCooperativeKernel";
constexpr char kLaunchConfigured[] = "cudaLaunchKernelExC";
constexpr char kDriverLaunch[] = "cuLaunchKernel";
constexpr char kDriverLaunchConfigured[] = "cuLaunchKernelEx";

template <const char* Function, LoadedFunction<NameOf>& NameOfKernel>
int runtime_launch(const Call<int(const void*, Dimensions, Dimensions, void**, std::size_t, void*)>& call,
                   const void* kernel, Dimensions grid, Dimensions block, void** arguments, std::size_t shared_bytes,
                   void* stream) {
    const auto real = [&] { return call.real(kernel, grid, block, arguments, shared_bytes, stream); };
    return launch(real, kernel, NameOfKernel, stream);
}

int runtime_launch_configured(const Call<int(const RuntimeConfiguration*, const void*, void**)>& call,
                              const RuntimeConfiguration* configuration, const void* kernel, void** arguments) {
    const auto real = [&] { return call.real(configuration, kernel, arguments); };
    return launch(real, kernel, name_of_host, configuration != nullptr ? configuration->stream : nullptr);
}

using Size = unsigned;
int driver_launch(
    const Call<int(const void*, Size, Size, Size, Size, Size, Size, unsigned, void*, void**, void**)>& call,
    const void* kernel, Size grid_x, Size grid_y, Size grid_z, Size block_x, Size block_y, Size block_z,
    unsigned shared_bytes, void* stream, void** arguments, void** more) {
    const auto real = [&] {
        return call.real(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments,
                         more);
    };
    return launch(real, kernel, name_of_function, stream);
}

int driver_launch_configured(const Call<int(const DriverConfiguration*, const void*, void**, void**)>& call,
                             const DriverConfiguration* configuration, const void* kernel, void** arguments,
                             void** more) {
    const auto real = [&] { return call.real(configuration, kernel, arguments, more); };
    return launch(real, kernel, name_of_function, configuration != nullptr ? configuration->stream : nullptr);
}

constexpr const char* kSource = "cuda_kernels";

constexpr Hook kHookList[] = {
    hook<&runtime_launch<kLaunch, name_of_host>>(nullptr, kLaunch, kSource),
    hook<&runtime_launch<kLaunchOfThread, name_of_host>>(nullptr, kLaunchOfThread, kSource),
    hook<&runtime_launch<kLaunchHandle, name_of_handle>>(nullptr, kLaunchHandle, kSource),
    hook<&runtime_launch<kLaunchHandleOfThread, name_of_handle>>(nullptr, kLaunchHandleOfThread, kSource),
    hook<&runtime_launch<kLaunchTogether, name_of_host>>(nullptr, kLaunchTogether, kSource),
    hook<&runtime_launch_configured>(nullptr, kLaunchConfigured, kSource),
    hook<&driver_launch>(nullptr, kDriverLaunch, kSource),
    hook<&driver_launch_configured>(nullptr, kDriverLaunchConfigured, kSource),
};

}  // namespace

const HookTable kKernelHooks = table_of(kHookList, nullptr, Names::kAll);

}  // namespace msmemscope::cuda
