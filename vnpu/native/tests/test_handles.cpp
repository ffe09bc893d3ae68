// Handles that are none, that are destroyed, and null pointers: each is a status, and none a crash.
#include <cstdint>
#include <string>

#include "check.h"
#include "kernel_launch.h"

extern "C" {
int aclrtSetDevice(int32_t);
int aclrtGetMemInfo(int, size_t*, size_t*);
int aclrtMemcpyAsync(void*, size_t, const void*, size_t, int, void*);
int aclrtCreateStream(void**);
int aclrtDestroyStream(void*);
int aclrtStreamGetId(void*, int32_t*);
int aclrtStreamGetIdImpl(void*, int32_t*);
int aclrtStreamQuery(void*, int32_t*);
int aclrtSynchronizeStream(void*);
int aclrtStreamWaitEvent(void*, void*);
int aclrtCreateEvent(void**);
int aclrtDestroyEvent(void*);
int aclrtRecordEvent(void*, void*);
int aclrtResetEvent(void*, void*);
int aclrtQueryEventStatus(void*, int32_t*);
int aclrtQueryEventWaitStatus(void*, int32_t*);
int aclrtSynchronizeEvent(void*);
int aclrtEventElapsedTime(float*, void*, void*);
int aclrtEventGetTimestamp(void*, uint64_t*);
int aclrtLaunchHostFunc(void*, void (*)(void*), void*);
const char* aclGetRecentErrMsg();
}

namespace {

constexpr int kInvalid = 107000;

void count(void* number) { ++*static_cast<int*>(number); }

void check_no_stream(void* handle, void* event) {
    char bytes[2][8] = {};
    int32_t number = 0;
    int runs = 0;
    CHECK_EQUAL(aclrtStreamGetId(handle, &number), kInvalid);
    CHECK_EQUAL(aclrtStreamGetIdImpl(handle, &number), kInvalid);
    CHECK_EQUAL(aclrtStreamQuery(handle, &number), kInvalid);
    CHECK_EQUAL(aclrtSynchronizeStream(handle), kInvalid);
    CHECK(std::string(aclGetRecentErrMsg()).find("is not a stream") != std::string::npos);
    CHECK_EQUAL(aclrtStreamWaitEvent(handle, event), kInvalid);
    CHECK_EQUAL(aclrtRecordEvent(event, handle), kInvalid);
    CHECK_EQUAL(aclrtMemcpyAsync(bytes[0], 8, bytes[1], 8, 0, handle), kInvalid);
    CHECK_EQUAL(aclrtLaunchHostFunc(handle, count, &runs), kInvalid);
    void* kernel = virtual_npu_kernel_function("counting", count);
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(kernel, 1, &runs, handle, nullptr), kInvalid);
    CHECK_EQUAL(runs, 0);
    CHECK_EQUAL(aclrtDestroyStream(handle), kInvalid);
}

void check_no_event(void* handle, void* event) {
    int32_t status = 0;
    float milliseconds = 0;
    uint64_t microseconds = 0;
    CHECK_EQUAL(aclrtRecordEvent(handle, nullptr), kInvalid);
    CHECK_EQUAL(aclrtResetEvent(handle, nullptr), kInvalid);
    CHECK_EQUAL(aclrtQueryEventStatus(handle, &status), kInvalid);
    CHECK_EQUAL(aclrtQueryEventWaitStatus(handle, &status), kInvalid);
    CHECK_EQUAL(aclrtSynchronizeEvent(handle), kInvalid);
    CHECK_EQUAL(aclrtStreamWaitEvent(nullptr, handle), kInvalid);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, handle, event), kInvalid);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, event, handle), kInvalid);
    CHECK_EQUAL(aclrtEventGetTimestamp(handle, &microseconds), kInvalid);
    CHECK_EQUAL(aclrtDestroyEvent(handle), kInvalid);
}

}  // namespace

int main() {
    void* stream = nullptr;
    void* event = nullptr;
    size_t bytes = 0;
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclrtCreateStream(&stream), 0);
    CHECK_EQUAL(aclrtCreateEvent(&event), 0);
    CHECK_EQUAL(aclrtRecordEvent(event, stream), 0);

    CHECK_EQUAL(aclrtCreateStream(nullptr), kInvalid);
    CHECK_EQUAL(aclrtCreateEvent(nullptr), kInvalid);
    CHECK_EQUAL(aclrtStreamGetId(stream, nullptr), kInvalid);
    CHECK_EQUAL(aclrtStreamQuery(stream, nullptr), kInvalid);
    CHECK_EQUAL(aclrtQueryEventStatus(event, nullptr), kInvalid);
    CHECK_EQUAL(aclrtEventElapsedTime(nullptr, event, event), kInvalid);
    CHECK_EQUAL(aclrtEventGetTimestamp(event, nullptr), kInvalid);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, nullptr, nullptr), kInvalid);
    CHECK_EQUAL(aclrtGetMemInfo(0, nullptr, &bytes), kInvalid);
    CHECK_EQUAL(aclrtGetMemInfo(0, &bytes, nullptr), kInvalid);

    char other[64] = {};
    check_no_stream(other, event);
    check_no_stream(event, event);
    check_no_event(nullptr, event);
    check_no_event(other, event);
    check_no_event(stream, event);

    // A destroyed one is none; its place is used again, for one that is as new.
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    check_no_stream(stream, event);
    void* past = event;
    CHECK_EQUAL(aclrtCreateEvent(&event), 0);
    CHECK_EQUAL(aclrtDestroyEvent(past), 0);
    check_no_event(past, event);
    void* made = nullptr;
    float milliseconds = 0;
    CHECK_EQUAL(aclrtCreateEvent(&made), 0);
    CHECK(made == past);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, made, event), kInvalid);  // not recorded
    CHECK_EQUAL(aclrtDestroyEvent(made), 0);
    CHECK_EQUAL(aclrtDestroyEvent(event), 0);
    return 0;
}
