#include "devices.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "device_failures.h"
#include "driver.h"
#include "kernel_launch.h"
#include "runtime_errors.h"
#include "settings.h"
#include "streams.h"

namespace virtual_npu {
namespace {

struct Device {
    Context primary;
    bool active;
    std::vector<void*> overhead;  // what the modules of the driver hold while the device is in use
};

std::mutex guard;
Device devices[kMostDevices];
std::unordered_set<Context*>& made_contexts() {
    static auto* contexts = new std::unordered_set<Context*>();
    return *contexts;
}
thread_local Context* current = nullptr;

int64_t device_count() { return static_cast<int64_t>(visible_devices().size()); }

bool is_device(int64_t device) { return device >= 0 && device < device_count(); }

// With the guard held. The first use of a device costs memory that no framework sees.
int activate(uint32_t number) {
    Device& device = devices[number];
    if (device.active) return kAclSuccess;
    device.primary.device = number;
    for (const ModuleOverhead& module : settings().overhead) {
        void* block = nullptr;
        const unsigned long long flag = driver_device(number) | (kKindDevice << kFlagKindShift) | kFlagHighBandwidth |
                                        kFlagHugePage |
                                        (static_cast<unsigned long long>(module.module) << kFlagModuleShift);
        if (halMemAlloc(&block, module.bytes, flag) != DRV_ERROR_NONE) {
            for (void* earlier : device.overhead) halMemFree(earlier);
            device.overhead.clear();
            return fail(kAclOutOfMemory,
                        "EL0004: device %u: no memory for the initialisation of module %s (%llu bytes)", number,
                        module_name(module.module), static_cast<unsigned long long>(module.bytes));
        }
        device.overhead.push_back(block);
    }
    device.active = true;
    return kAclSuccess;
}

}  // namespace

Context* current_context() { return current; }

// The lower runtime library keeps the device of the thread too: kernels are launched there.
void set_current_context(Context* context) {
    current = context;
    if (context == nullptr) {
        virtual_npu_set_current_device(-1, -1);
    } else {
        virtual_npu_set_current_device(static_cast<int32_t>(context->device),
                                       static_cast<int32_t>(driver_device(context->device)));
    }
}

int no_such_device(int64_t device) {
    return fail(kAclInvalidDevice, "EE1001: device %lld does not exist; there are %lld virtual devices (VNPU_DEVICES)",
                static_cast<long long>(device), static_cast<long long>(device_count()));
}

uint32_t driver_device(int64_t device) {
    return is_device(device) ? visible_devices()[static_cast<size_t>(device)] : kMostDevices;
}

int current_device() {
    if (current != nullptr) return static_cast<int>(current->device);
    fail(kAclNoContext, "EE1001: this thread has no context; it has to call aclrtSetDevice first");
    return -1;
}

int device_status(int32_t driver_device) {
    const char* failure = virtual_npu_device_failure(driver_device);
    if (failure == nullptr) return kAclSuccess;
    return fail(kAclDeviceFailed, "EZ9999: device %d runs nothing any more, because a task failed on it: %s",
                driver_device, failure);
}

}  // namespace virtual_npu

using virtual_npu::Context;
using virtual_npu::fail;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int virtual_npu_stream_status(const void* stream) {
    if (!virtual_npu::is_stream(stream)) {
        return fail(virtual_npu::kAclInvalidParameter, "EE1001: %p is not a stream, or it is destroyed", stream);
    }
    return virtual_npu::device_status(virtual_npu_device_of_stream(stream));
}

EXPORTED int aclInit(const char*) {
    const std::string& error = virtual_npu::settings().error;
    if (error.empty()) return virtual_npu::kAclSuccess;
    std::fprintf(stderr, "[vnpu] %s\n", error.c_str());
    return fail(virtual_npu::kAclInvalidParameter, "EE1001: %s", error.c_str());
}

EXPORTED int aclFinalize() { return virtual_npu::kAclSuccess; }

EXPORTED int aclrtGetDeviceCount(uint32_t* count) {
    *count = static_cast<uint32_t>(virtual_npu::device_count());
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtSetDevice(int32_t device) {
    if (!virtual_npu::is_device(device)) return virtual_npu::no_such_device(device);
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    const int status = virtual_npu::activate(static_cast<uint32_t>(device));
    if (status == virtual_npu::kAclSuccess) virtual_npu::set_current_context(&virtual_npu::devices[device].primary);
    return status;
}

// An error, not 0 with an undefined number, on a thread without a device: the callers depend on it.
EXPORTED int aclrtGetDevice(int32_t* device) {
    const int current = virtual_npu::current_device();
    if (current < 0) return virtual_npu::kAclNoContext;
    *device = current;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtResetDevice(int32_t number) {
    if (!virtual_npu::is_device(number)) return virtual_npu::no_such_device(number);
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    virtual_npu::Device& device = virtual_npu::devices[number];
    for (void* block : device.overhead) halMemFree(block);
    device.overhead.clear();
    device.active = false;
    virtual_npu_forget_failure(static_cast<int32_t>(virtual_npu::driver_device(number)));
    if (virtual_npu::current == &device.primary) virtual_npu::set_current_context(nullptr);
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtResetDeviceForce(int32_t device) { return aclrtResetDevice(device); }

EXPORTED int aclrtGetCurrentContext(void** context) {
    if (virtual_npu::current_device() < 0) return virtual_npu::kAclNoContext;
    *context = virtual_npu::current;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtSetCurrentContext(void* context) {
    auto* chosen = static_cast<Context*>(context);
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    bool known = virtual_npu::made_contexts().count(chosen) > 0;
    for (const virtual_npu::Device& device : virtual_npu::devices) known = known || chosen == &device.primary;
    if (!known) return fail(virtual_npu::kAclInvalidParameter, "EE1001: %p is not a context", context);
    virtual_npu::set_current_context(chosen);
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtCreateContext(void** context, int32_t device) {
    const int status = aclrtSetDevice(device);
    if (status != virtual_npu::kAclSuccess) return status;
    auto* made = new Context{static_cast<uint32_t>(device)};
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    virtual_npu::made_contexts().insert(made);
    virtual_npu::set_current_context(made);
    *context = made;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtDestroyContext(void* context) {
    auto* chosen = static_cast<Context*>(context);
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    if (virtual_npu::made_contexts().erase(chosen) == 0) {
        return fail(virtual_npu::kAclInvalidParameter, "EE1001: %p is not a context that was created", context);
    }
    if (virtual_npu::current == chosen) virtual_npu::set_current_context(nullptr);
    delete chosen;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active) {
    if (!virtual_npu::is_device(device)) return virtual_npu::no_such_device(device);
    const std::lock_guard<std::mutex> lock(virtual_npu::guard);
    if (flags != nullptr) *flags = 0;
    *active = virtual_npu::devices[device].active ? 1 : 0;
    return virtual_npu::kAclSuccess;
}

EXPORTED const char* aclrtGetSocName() { return virtual_npu::settings().soc_name.c_str(); }

EXPORTED int aclrtDeviceCanAccessPeer(int32_t* can, int32_t device, int32_t peer) {
    *can = device != peer && virtual_npu::is_device(device) && virtual_npu::is_device(peer) ? 1 : 0;
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t) {
    return virtual_npu::is_device(peer) ? static_cast<int>(virtual_npu::kAclSuccess)
                                        : virtual_npu::no_such_device(peer);
}

EXPORTED int aclGetDeviceCapability(uint32_t device, int, int64_t* value) {
    if (!virtual_npu::is_device(device)) return virtual_npu::no_such_device(device);
    *value = 24;  // cores of the kind that was asked for: a 910B has 24 cube cores; nothing depends on the number here
    return virtual_npu::kAclSuccess;
}

EXPORTED int aclrtGetDeviceUtilizationRate(int32_t device, void* utilization) {
    if (!virtual_npu::is_device(device)) return virtual_npu::no_such_device(device);
    std::memset(utilization, 0, 32);  // an idle device: four rates and room for more
    return virtual_npu::kAclSuccess;
}
