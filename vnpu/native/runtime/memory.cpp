// Memory of devices and pinned memory of the host: allocation through the driver, copies, information.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "device_failures.h"
#include "devices.h"
#include "driver.h"
#include "graph.h"
#include "host_registration.h"
#include "kernel_launch.h"
#include "on_stream.h"
#include "runtime_errors.h"
#include "settings.h"

namespace virtual_npu {
namespace {

// aclrtMalloc leaves room behind a block; aclrtMallocAlign32 takes what was asked, which is what the framework uses.
constexpr size_t kPadding = 32;

// Of the policies of aclrtMalloc: 0 is huge pages first, others take none.
constexpr uint32_t kHugePagesOnly = 1;

// A kind of copy; of the others the source is memory of a device.
constexpr int kHostToDevice = 1;

bool data_matters(size_t bytes) { return settings().compute == Compute::kCpu || bytes <= kMostBytesMoved; }

// Copies the pages that somebody has written: what the host or another rank put there. Activations, which nobody writes
// with compute=none, have none, and their copies take no memory either.
void copy_written_pages(char* target, const char* source, size_t bytes) {
    const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    constexpr size_t kPages = 512;  // at a time
    unsigned char present[kPages];
    const char* const end = source + bytes;
    const char* const first = source;
    while (source < end) {
        const auto page = reinterpret_cast<uintptr_t>(source) & ~(page_bytes - 1);
        const char* stop = std::min(end, reinterpret_cast<const char*>(page) + kPages * page_bytes);
        const auto length = static_cast<size_t>(stop - reinterpret_cast<const char*>(page));
        const bool is_known = mincore(reinterpret_cast<void*>(page), length, present) == 0;
        for (size_t number = 0; source < stop; ++number) {
            const char* page_end = std::min(stop, reinterpret_cast<const char*>(page) + (number + 1) * page_bytes);
            if (!is_known || (present[number] & 1) != 0) {
                std::memcpy(target + (source - first), source, static_cast<size_t>(page_end - source));
            }
            source = page_end;
        }
    }
}

int allocate_device(void** pointer, size_t bytes, uint32_t policy) {
    const int device = current_device();
    if (device < 0) return kAclNoContext;
    if (pointer == nullptr || bytes == 0) return fail(kAclInvalidParameter, "EE1001: an allocation of 0 bytes");
    const uint32_t pages = policy & 0xff;  // further bits say where
    const bool huge_pages = pages <= kHugePagesOnly;
    const unsigned long long flag =
        static_cast<unsigned long long>(driver_device(device)) | (kKindDevice << kFlagKindShift) | kFlagHighBandwidth |
        (huge_pages ? kFlagHugePage : 0) | (static_cast<unsigned long long>(kModuleApplication) << kFlagModuleShift);
    const drvError_t status = halMemAlloc(pointer, bytes, flag);
    if (status == DRV_ERROR_NONE) return kAclSuccess;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    virtual_npu_device_memory(driver_device(device), &free_bytes, &total_bytes);
    // Memory for an operator's workspace, which torch_npu asks for once; for a tensor it frees its caches and asks
    // again.
    if (pages == kHugePagesOnly) {
        virtual_npu_call_refused(static_cast<int32_t>(driver_device(device)), "no memory for a workspace");
    }
    return fail(status == DRV_ERROR_OUT_OF_MEMORY ? kAclOutOfMemory : kAclInternalError,
                "EL0004: device %d: no memory for %zu bytes; %zu of %zu bytes are free", device, bytes, free_bytes,
                total_bytes);
}

int release(void* pointer, const char* function) {
    if (settings().asynchronous) wait_for_all_devices();  // something may use it that the host has forgotten
    if (halMemFree(pointer) == DRV_ERROR_NONE) return kAclSuccess;
    return fail(kAclInvalidParameter, "EE1001: %s: %p is not the begin of a block in use", function, pointer);
}

int allocate_host(void** pointer, size_t bytes) {
    if (pointer == nullptr || bytes == 0) return fail(kAclInvalidParameter, "EE1001: an allocation of 0 bytes");
    const unsigned long long flag =
        (kKindHost << kFlagKindShift) | (static_cast<unsigned long long>(kModuleApplication) << kFlagModuleShift);
    if (halMemAlloc(pointer, bytes, flag) == DRV_ERROR_NONE) return kAclSuccess;
    return fail(kAclOutOfMemory, "EL0004: no pinned host memory for %zu bytes", bytes);
}

int registration_result(int status, const char* function, const void* pointer) {
    if (status == kAclSuccess) return kAclSuccess;
    return fail(kAclInvalidParameter, "EE1001: %s: host memory %p is null, or registered already, or not registered",
                function, pointer);
}

// See device_failures.h.
[[gnu::format(printf, 2, 3)]] int refuse(void* stream, const char* format, ...) {
    char text[256];
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    virtual_npu_call_refused(virtual_npu_device_of_stream(stream), text);
    return fail(kAclInvalidParameter, "EE1001: %s", text);
}

int copy(void* target, size_t target_bytes, const void* source, size_t bytes, int kind, void* stream) {
    const int status = virtual_npu_stream_status(stream);
    if (status != kAclSuccess || bytes == 0) return status;
    if (target == nullptr || source == nullptr || bytes > target_bytes) {
        return refuse(stream, "a copy of %zu bytes from %p to %p, which has room for %zu", bytes, source, target,
                      target_bytes);
    }
    return on_stream(stream, [target, source, bytes, kind] {
        if (data_matters(bytes) || (kind == kHostToDevice && bytes <= kMostBytesWrittenByHost)) {
            std::memmove(target, source, bytes);
        } else if (kind != kHostToDevice) {
            copy_written_pages(static_cast<char*>(target), static_cast<const char*>(source), bytes);
        }
        return static_cast<int>(kAclSuccess);
    });
}

int set(void* target, size_t target_bytes, int32_t value, size_t bytes, void* stream) {
    const int status = virtual_npu_stream_status(stream);
    if (status != kAclSuccess || bytes == 0) return status;
    if (target == nullptr || bytes > target_bytes) {
        return refuse(stream, "%zu bytes to be set at %p, which has room for %zu", bytes, target, target_bytes);
    }
    return on_stream(stream, [target, value, bytes] {
        if (data_matters(bytes)) std::memset(target, value, bytes);
        return static_cast<int>(kAclSuccess);
    });
}

// What does not return before it has happened: on the default stream, and not while the mode of a capture forbids it.
template <typename Call>
int at_once(const char* function, Call call) {
    if (Graph::forbids_unsafe_calls()) return stream_result(kCaptureModeForbids, function);
    const int status = call();
    Stream* stream = stream_of(nullptr);
    if (status != kAclSuccess || runs_now(stream)) return status;
    wait_for_stream(*stream, -1);
    return virtual_npu_stream_status(nullptr);
}

}  // namespace
}  // namespace virtual_npu

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclrtMalloc(void** pointer, size_t bytes, uint32_t policy) {
    return virtual_npu::allocate_device(pointer, bytes + virtual_npu::kPadding, policy);
}
EXPORTED int aclrtMallocAlign32(void** pointer, size_t bytes, uint32_t policy) {
    return virtual_npu::allocate_device(pointer, bytes, policy);
}
EXPORTED int aclrtFree(void* pointer) { return virtual_npu::release(pointer, "aclrtFree"); }

EXPORTED int aclrtMallocHost(void** pointer, size_t bytes) { return virtual_npu::allocate_host(pointer, bytes); }
EXPORTED int aclrtMallocHostWithCfg(void** pointer, uint64_t bytes, void*) {
    return virtual_npu::allocate_host(pointer, bytes);
}
EXPORTED int aclrtFreeHost(void* pointer) { return virtual_npu::release(pointer, "aclrtFreeHost"); }

EXPORTED int aclrtHostRegisterV2(void* pointer, uint64_t bytes, uint32_t flags) {
    return virtual_npu::registration_result(aclrtHostRegisterV2Impl(pointer, bytes, flags), "aclrtHostRegisterV2",
                                            pointer);
}
EXPORTED int aclrtHostRegister(void* pointer, uint64_t bytes, int type, void** device_pointer) {
    return virtual_npu::registration_result(aclrtHostRegisterImpl(pointer, bytes, type, device_pointer),
                                            "aclrtHostRegister", pointer);
}
EXPORTED int aclrtHostUnregister(void* pointer) {
    return virtual_npu::registration_result(aclrtHostUnregisterImpl(pointer), "aclrtHostUnregister", pointer);
}

EXPORTED int aclrtMemcpy(void* target, size_t target_bytes, const void* source, size_t bytes, int kind) {
    return virtual_npu::at_once("aclrtMemcpy",
                                [=] { return virtual_npu::copy(target, target_bytes, source, bytes, kind, nullptr); });
}
EXPORTED int aclrtMemcpyAsync(void* target, size_t target_bytes, const void* source, size_t bytes, int kind,
                              void* stream) {
    return virtual_npu::copy(target, target_bytes, source, bytes, kind, stream);
}
EXPORTED int aclrtMemcpyAsyncWithCondition(void* target, size_t target_bytes, const void* source, size_t bytes,
                                           int kind, void* stream) {
    return virtual_npu::copy(target, target_bytes, source, bytes, kind, stream);
}
EXPORTED int aclrtMemset(void* target, size_t target_bytes, int32_t value, size_t bytes) {
    return virtual_npu::at_once("aclrtMemset",
                                [=] { return virtual_npu::set(target, target_bytes, value, bytes, nullptr); });
}
EXPORTED int aclrtMemsetAsync(void* target, size_t target_bytes, int32_t value, size_t bytes, void* stream) {
    return virtual_npu::set(target, target_bytes, value, bytes, stream);
}

// On a thread that has set no device, of the first one: torch_npu asks before it sets a device.
EXPORTED int aclrtGetMemInfo(int, size_t* free_bytes, size_t* total_bytes) {
    const virtual_npu::Context* context = virtual_npu::current_context();
    const int64_t device = context == nullptr ? 0 : context->device;
    if (free_bytes == nullptr || total_bytes == nullptr) {
        return fail(virtual_npu::kAclInvalidParameter, "EE1001: there is no room for the result: a null pointer");
    }
    if (virtual_npu::visible_devices().empty()) return virtual_npu::no_such_device(device);
    virtual_npu_device_memory(virtual_npu::driver_device(device), free_bytes, total_bytes);
    return virtual_npu::kAclSuccess;
}

namespace {

// aclrtMemUsageInfo: 112 bytes.
struct MemoryUsage {
    char name[32];
    uint64_t current;
    uint64_t peak;
    size_t reserved[8];
};
static_assert(sizeof(MemoryUsage) == 112);

}  // namespace

// What each module of the driver holds on a device.
EXPORTED int aclrtGetMemUsageInfo(int32_t device, MemoryUsage* modules, size_t room, size_t* count) {
    *count = 0;
    for (uint32_t module = 0; module < virtual_npu::kModuleCount && *count < room; ++module) {
        MemoryUsage usage{};
        virtual_npu_module_memory(virtual_npu::driver_device(device), module, &usage.current, &usage.peak);
        if (usage.peak == 0) continue;
        std::strncpy(usage.name, virtual_npu::module_name(module), sizeof usage.name - 1);
        modules[(*count)++] = usage;
    }
    return virtual_npu::kAclSuccess;
}
