// What happens on a device after a task has failed on it, and what does not count as such a failure.
#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

#include "check.h"
#include "device_failures.h"
#include "kernel_launch.h"

extern "C" {
int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtResetDevice(int32_t);
int aclrtMallocAlign32(void**, size_t, uint32_t);
int aclrtFree(void*);
int aclrtMemcpy(void*, size_t, const void*, size_t, int);
int aclrtMemcpyAsync(void*, size_t, const void*, size_t, int, void*);
int aclrtMemset(void*, size_t, int32_t, size_t);
int aclrtCreateStream(void**);
int aclrtDestroyStream(void*);
int aclrtStreamQuery(void*, int32_t*);
int aclrtSynchronizeStream(void*);
int aclrtSynchronizeDevice();
int aclrtStreamWaitEvent(void*, void*);
int aclrtCreateEventExWithFlag(void**, uint32_t);
int aclrtDestroyEvent(void*);
int aclrtRecordEvent(void*, void*);
int aclrtQueryEventStatus(void*, int32_t*);
int aclrtSynchronizeEvent(void*);
int aclrtLaunchHostFunc(void*, void (*)(void*), void*);
const char* aclGetRecentErrMsg();
}

using namespace virtual_npu;

namespace {

constexpr int kFailed = 507015;

void count(void* number) { ++*static_cast<int*>(number); }

void on_thread_named(const char* name, void (*body)()) {
    std::thread([name, body] {
        pthread_setname_np(pthread_self(), name);
        CHECK_EQUAL(aclrtSetDevice(0), 0);
        body();
    }).join();
}

// Everything that would wait for a result, or put something on the device.
void check_all(void* stream, int status) {
    char bytes[8] = {};
    char other[8] = {};
    void* event = nullptr;
    int32_t answer = 0;
    int runs = 0;
    void* kernel = virtual_npu_kernel_function("counting", count);
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&event, 0), 0);
    CHECK_EQUAL(aclrtRecordEvent(event, stream), 0);  // the framework does that in destructors
    CHECK_EQUAL(aclrtQueryEventStatus(event, &answer), status);
    CHECK_EQUAL(aclrtSynchronizeEvent(event), status);
    CHECK_EQUAL(aclrtStreamWaitEvent(stream, event), status);
    CHECK_EQUAL(aclrtStreamQuery(stream, &answer), status);
    CHECK_EQUAL(aclrtSynchronizeStream(stream), status);
    CHECK_EQUAL(aclrtMemcpyAsync(bytes, sizeof bytes, other, sizeof other, 2, stream), status);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, count, &runs), status);
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(kernel, 1, &runs, stream, nullptr), status);
    CHECK_EQUAL(runs, status == 0 ? 2 : 0);
    CHECK_EQUAL(aclrtDestroyEvent(event), 0);
}

void check_current_device(int status) {
    char bytes[8] = {};
    char other[8] = {};
    check_all(nullptr, status);
    CHECK_EQUAL(aclrtMemcpy(bytes, sizeof bytes, other, sizeof other, 2), status);
    CHECK_EQUAL(aclrtMemset(bytes, sizeof bytes, 0, sizeof bytes), status);
    CHECK_EQUAL(aclrtSynchronizeDevice(), status);
}

}  // namespace

int main() {
    void* streams[2] = {};
    void* memory = nullptr;
    CHECK_EQUAL(aclInit(nullptr), 0);
    for (int32_t device : {1, 0}) {
        CHECK_EQUAL(aclrtSetDevice(device), 0);
        CHECK_EQUAL(aclrtCreateStream(&streams[device]), 0);
    }
    check_current_device(0);

    // A failure stays, with the text of the first one; the other device is not concerned, and memory can be released.
    virtual_npu_task_failed(0, "the first reason");
    virtual_npu_task_failed(0, "the second reason");
    check_current_device(kFailed);
    check_all(streams[0], kFailed);
    CHECK_EQUAL(aclrtSynchronizeDevice(), kFailed);
    CHECK(std::string(aclGetRecentErrMsg()).find("the first reason") != std::string::npos);
    CHECK_EQUAL(aclrtMallocAlign32(&memory, 1024, 0), 0);
    CHECK_EQUAL(aclrtFree(memory), 0);
    check_all(streams[1], 0);
    CHECK_EQUAL(aclrtSetDevice(1), 0);
    check_current_device(0);

    // Until the device is reset.
    CHECK_EQUAL(aclrtResetDevice(0), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    check_current_device(0);

    // A refused call is the caller's, unless the caller is the task queue of torch_npu, which drops what follows.
    char byte = 0;
    CHECK_EQUAL(aclrtMemcpy(&byte, 0, &byte, 1, 0), 107000);
    CHECK_EQUAL(aclrtMallocAlign32(&memory, size_t{1} << 50, 1), 207001);
    on_thread_named("pt_autograd_0", [] { CHECK_EQUAL(aclrtMemcpy(nullptr, 1, nullptr, 1, 0), 107000); });
    check_current_device(0);
    on_thread_named("acl_thread", [] { CHECK_EQUAL(aclrtMemcpyAsync(nullptr, 1, nullptr, 1, 0, nullptr), 107000); });
    check_current_device(kFailed);
    CHECK_EQUAL(aclrtResetDevice(0), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);

    // For a tensor torch_npu asks again after it has emptied its caches; for a workspace (huge pages only) it does not.
    on_thread_named("acl_thread", [] {
        void* block = nullptr;
        CHECK_EQUAL(aclrtMallocAlign32(&block, size_t{1} << 50, 0), 207001);
    });
    check_current_device(0);
    on_thread_named("acl_thread", [] {
        void* block = nullptr;
        CHECK_EQUAL(aclrtMallocAlign32(&block, size_t{1} << 50, 1), 207001);
    });
    check_current_device(kFailed);
    CHECK_EQUAL(aclrtResetDevice(0), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);

    // With blocking launches a failed task is reported at its call, and nothing came after it.
    setenv("ASCEND_LAUNCH_BLOCKING", "1", 1);
    virtual_npu_task_failed(0, "reported at the call");
    check_current_device(0);
    setenv("ASCEND_LAUNCH_BLOCKING", "0", 1);
    virtual_npu_task_failed(0, "not reported at the call");
    check_current_device(kFailed);

    virtual_npu_task_failed(-1, "of no device");
    virtual_npu_task_failed(64, "of no device");
    CHECK(virtual_npu_device_failure(-1) == nullptr);
    for (void* stream : streams) CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    return 0;
}
