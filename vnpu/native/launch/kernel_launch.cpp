#include "kernel_launch.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "device_failures.h"
#include "profiler.h"
#include "settings.h"
#include "stars_channel.h"
#include "stream_work.h"

namespace virtual_npu {
namespace {

constexpr uint64_t kFunctionMark = 0x6b65726e656c2121;
constexpr uint64_t kBinaryMark = 0x62696e6172792121;

struct Function {
    uint64_t mark;
    std::string name;
    void (*body)(void* arguments);
    void* (*keep)(void* arguments);
    void (*release)(void* kept);
    std::atomic<uint64_t> name_id;  // what the profiler knows the name by; 0: not asked yet
    std::atomic<bool> explained;
};

struct Binary {
    uint64_t mark;
    Function* first;  // what a launch by the binary's handle runs
};

std::mutex guard;
std::map<std::string, std::unique_ptr<Function>>& functions() {
    static auto* table = new std::map<std::string, std::unique_ptr<Function>>();
    return *table;
}
std::map<const void*, Function*>& stubs() {
    static auto* table = new std::map<const void*, Function*>();
    return *table;
}

// With the guard held.
Function* function_named(const char* name, void (*body)(void*), void* (*keep)(void*) = nullptr,
                         void (*release)(void*) = nullptr) {
    std::unique_ptr<Function>& place = functions()[name];
    if (place == nullptr) place.reset(new Function{kFunctionMark, name, body, keep, release, {0}, {false}});
    return place.get();
}

Function* function_of_stub(const void* stub) {
    const std::lock_guard<std::mutex> lock(guard);
    const auto place = stubs().find(stub);
    return place == stubs().end() ? nullptr : place->second;
}

Function* function_of_handle(void* handle) {
    if (handle == nullptr) return nullptr;
    const uint64_t mark = *static_cast<const uint64_t*>(handle);
    if (mark == kBinaryMark) return static_cast<Binary*>(handle)->first;
    return mark == kFunctionMark ? static_cast<Function*>(handle) : nullptr;
}

// A bit for each device whose tasks a profiler asked for.
std::atomic<uint64_t> traced_devices{0};

int32_t take_profiler_command(uint32_t, void* data, uint32_t length) {
    if (length != sizeof(ProfilerCommand)) return -1;
    const auto* command = static_cast<const ProfilerCommand*>(data);
    if ((command->switches & (kSwitchTaskTime | kSwitchRuntimeTrace)) == 0) return 0;
    for (uint32_t index = 0; index < command->device_count && index < 64; ++index) {
        const uint64_t bit = uint64_t{1} << (command->devices[index] & 63);
        if (command->type == kCommandStart) traced_devices |= bit;
        if (command->type == kCommandStop) traced_devices &= ~bit;
    }
    return 0;
}

__attribute__((constructor)) void register_module() {
    constexpr uint32_t kRuntimeModule = 7;
    MsprofRegisterCallback(kRuntimeModule, take_profiler_command);
}

thread_local int32_t current_device = -1;
thread_local int32_t current_driver_device = -1;
std::atomic<uint32_t> device_tasks[kMostDevices];

// A device whose log does not tell streams numbers its tasks across them.
bool numbers_tasks_by_device() {
    static const bool is_so = settings().soc_name.find("950") != std::string::npos;
    return is_so;
}

struct Task {
    uint32_t device;
    uint32_t stream;
    uint32_t number;
};

void report_launch(Function& function, const Task& task) {
    thread_local const auto thread = static_cast<uint32_t>(syscall(SYS_gettid));
    if (function.name_id == 0) function.name_id = MsprofGetHashId(function.name.c_str(), function.name.size());
    TaskTrack track{};
    track.magic = kReportMagic;
    track.level = kRuntimeLevel;
    track.type = kTaskTrack;
    track.thread = thread;
    track.data_bytes = 40;
    track.counter = MsprofSysCycleTime();
    track.device = static_cast<uint16_t>(task.device);
    track.stream = static_cast<uint16_t>(task.stream);
    track.task = task.number;
    track.kernel_name = function.name_id;
    MsprofReportCompactInfo(1, &track, sizeof track);
}

void run(Function& function, void* arguments) {
    if (function.body != nullptr) {
        function.body(arguments);
    } else if (settings().compute == Compute::kCpu && !function.explained.exchange(true)) {
        std::fprintf(stderr,
                     "[vnpu] the kernel %s is launched and computes nothing: the virtual NPU runs no device code\n",
                     function.name.c_str());
    }
}

bool is_traced(uint32_t device) { return (traced_devices.load(std::memory_order_relaxed) >> device & 1) != 0; }

void run_task(Function& function, void* arguments, const Task& task) {
    if (!is_traced(task.device)) {
        run(function, arguments);
        return;
    }
    virtual_npu_report_task(task.device, task.stream, task.number, false);
    run(function, arguments);
    virtual_npu_report_task(task.device, task.stream, task.number, true);
}

class KernelWork final : public StreamWork {
public:
    KernelWork(Function& function, void* arguments, const Task& task)
        : function_(function),
          arguments_(function.keep == nullptr ? arguments : function.keep(arguments)),
          task_(task) {}
    ~KernelWork() override {
        if (function_.release != nullptr) function_.release(arguments_);
    }
    void run() override { run_task(function_, arguments_, task_); }
    bool is_kernel() const override { return true; }

private:
    Function& function_;
    void* const arguments_;
    const Task task_;
};

int launch(Function* function, void* arguments, void* stream_handle) {
    if (function == nullptr || !is_stream(stream_handle)) return kRuntimeInvalidParameter;
    Stream* stream = stream_of(stream_handle);
    if (stream == nullptr) return kRuntimeNoContext;
    const uint32_t device = stream->device;
    if (virtual_npu_device_failure(static_cast<int32_t>(device)) != nullptr) return kRuntimeDeviceFailed;
    std::atomic<uint32_t>& tasks = numbers_tasks_by_device() ? device_tasks[device] : stream->tasks;
    const Task task{device, static_cast<uint32_t>(stream->number) & 0x7ff,
                    tasks.fetch_add(1, std::memory_order_relaxed)};
    if (is_traced(device)) report_launch(*function, task);
    if (!runs_now(stream)) return put_work(*stream, std::make_shared<KernelWork>(*function, arguments, task));
    run_task(*function, arguments, task);
    return kRuntimeSuccess;
}

}  // namespace
}  // namespace virtual_npu

using namespace virtual_npu;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int rtDevBinaryRegister(const void*, void** handle) {
    if (handle == nullptr) return kRuntimeInvalidParameter;
    *handle = new Binary{kBinaryMark, nullptr};
    return kRuntimeSuccess;
}

EXPORTED int rtDevBinaryUnRegister(void* handle) {
    auto* binary = static_cast<Binary*>(handle);
    if (binary == nullptr || binary->mark != kBinaryMark) return kRuntimeInvalidParameter;
    binary->mark = 0;
    delete binary;
    return kRuntimeSuccess;
}

EXPORTED int rtBinaryGetFunctionByName(void* handle, const char* name, void** function) {
    auto* binary = static_cast<Binary*>(handle);
    if (binary == nullptr || binary->mark != kBinaryMark || name == nullptr || function == nullptr) {
        return kRuntimeInvalidParameter;
    }
    const std::lock_guard<std::mutex> lock(guard);
    Function* found = function_named(name, nullptr);
    if (binary->first == nullptr) binary->first = found;
    *function = found;
    return kRuntimeSuccess;
}

EXPORTED int rtFunctionRegister(void* binary, const void* stub, const char* name, const void*, uint32_t) {
    void* function = nullptr;
    const int status = rtBinaryGetFunctionByName(binary, name, &function);
    if (status != kRuntimeSuccess) return status;
    const std::lock_guard<std::mutex> lock(guard);
    stubs()[stub] = static_cast<Function*>(function);
    return kRuntimeSuccess;
}

EXPORTED int rtKernelLaunch(const void* stub, uint32_t, void* arguments, uint32_t, void*, void* stream) {
    return launch(function_of_stub(stub), arguments, stream);
}

// The oldest way to launch: what rtConfigureCall and rtSetupArgument prepared before. Neither is here, so nothing is.
EXPORTED int rtLaunch(const void*) { return kRuntimeInvalidParameter; }

EXPORTED int rtKernelLaunchWithHandleV2(void* handle, uint64_t, uint32_t, void* arguments, void*, void* stream,
                                        const void*) {
    return launch(function_of_handle(handle), arguments, stream);
}

EXPORTED int rtKernelLaunchWithFlagV2(const void* stub, uint32_t, void* arguments, void*, void* stream, uint32_t,
                                      const void*) {
    return launch(function_of_stub(stub), arguments, stream);
}

EXPORTED int rtAicpuKernelLaunchExWithArgs(uint32_t, const char* name, uint32_t, const void* arguments, void*,
                                           void* stream, uint32_t) {
    if (name == nullptr) return kRuntimeInvalidParameter;
    return launch(static_cast<Function*>(virtual_npu_kernel_function(name, nullptr)), const_cast<void*>(arguments),
                  stream);
}

EXPORTED int rtLaunchKernelByFuncHandle(void* function, uint32_t, void* arguments, void* stream) {
    return launch(function_of_handle(function), arguments, stream);
}

EXPORTED int rtLaunchKernelByFuncHandleV2(void* function, uint32_t, void* arguments, void* stream, const void*) {
    return launch(function_of_handle(function), arguments, stream);
}

EXPORTED int rtGetDevice(int32_t* device) {
    if (device == nullptr) return kRuntimeInvalidParameter;
    if (current_device < 0) return kRuntimeNoContext;
    *device = current_device;
    return kRuntimeSuccess;
}

EXPORTED void* virtual_npu_kernel_function(const char* name, void (*body)(void*), void* (*keep)(void*),
                                           void (*release)(void*)) {
    const std::lock_guard<std::mutex> lock(guard);
    return function_named(name, body, keep, release);
}

EXPORTED void virtual_npu_set_current_device(int32_t device, int32_t driver_device) {
    current_device = device;
    current_driver_device = driver_device;
}

EXPORTED int32_t virtual_npu_current_driver_device() { return current_driver_device; }

EXPORTED int32_t virtual_npu_device_of_stream(const void* stream) {
    if (!is_stream(stream)) return -1;
    return stream == nullptr ? current_driver_device : static_cast<int32_t>(static_cast<const Stream*>(stream)->device);
}
