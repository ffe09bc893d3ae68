// Streams that run behind the host: in order, after what they wait for, until a device has failed.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "kernel_launch.h"

extern "C" {
int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtResetDevice(int32_t);
int aclrtMalloc(void**, size_t, uint32_t);
int aclrtFree(void*);
int aclrtMemcpyAsync(void*, size_t, const void*, size_t, int, void*);
int aclrtMemsetAsync(void*, size_t, int32_t, size_t, void*);
int aclrtCreateStream(void**);
int aclrtDestroyStream(void*);
int aclrtDestroyStreamForce(void*);
int aclrtStreamQuery(void*, int32_t*);
int aclrtSynchronizeStream(void*);
int aclrtSynchronizeStreamWithTimeout(void*, int32_t);
int aclrtSynchronizeDevice();
int aclrtCreateEventExWithFlag(void**, uint32_t);
int aclrtDestroyEvent(void*);
int aclrtRecordEvent(void*, void*);
int aclrtStreamWaitEvent(void*, void*);
int aclrtQueryEventStatus(void*, int32_t*);
int aclrtSynchronizeEvent(void*);
int aclrtLaunchHostFunc(void*, void (*)(void*), void*);
int aclmdlRICaptureBegin(void*, int);
int aclmdlRICaptureEnd(void*, void**);
int aclmdlRIExecuteAsync(void*, void*);
int aclmdlRIDestroy(void*);
const char* aclGetRecentErrMsg();
}
#include "device_failures.h"

namespace {

// A stream stands still until it is opened.
struct Gate {
    std::atomic<bool> is_open{false};
    void close(void* stream) {
        CHECK_EQUAL(aclrtLaunchHostFunc(
                        stream,
                        [](void* gate) {
                            while (!static_cast<Gate*>(gate)->is_open) std::this_thread::yield();
                        },
                        this),
                    0);
    }
};

void* new_stream() {
    void* stream = nullptr;
    CHECK_EQUAL(aclrtCreateStream(&stream), 0);
    return stream;
}

int32_t query(void* stream) {
    int32_t status = -1;
    CHECK_EQUAL(aclrtStreamQuery(stream, &status), 0);
    return status;
}

int32_t event_status(void* event) {
    int32_t status = -1;
    CHECK_EQUAL(aclrtQueryEventStatus(event, &status), 0);
    return status;
}

void order_and_waits() {
    void* first = new_stream();
    void* second = new_stream();
    void* event = nullptr;
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&event, 1), 0);
    Gate gate;
    char from[4] = "abc";
    char middle[4] = "";
    char to[4] = "";
    gate.close(first);
    CHECK_EQUAL(aclrtMemcpyAsync(middle, 4, from, 4, 3, first), 0);
    CHECK_EQUAL(aclrtRecordEvent(event, first), 0);
    CHECK_EQUAL(aclrtMemsetAsync(middle, 4, 'z', 3, first), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(second, event), 0);
    CHECK_EQUAL(aclrtMemcpyAsync(to, 4, middle, 4, 3, second), 0);
    void* third = new_stream();
    int called = 0;
    CHECK_EQUAL(aclrtLaunchHostFunc(third, [](void* count) { ++*static_cast<int*>(count); }, &called), 0);
    CHECK_EQUAL(aclrtSynchronizeStream(third), 0);  // nobody stands in its way
    CHECK_EQUAL(called, 1);
    CHECK_EQUAL(query(first), 1);
    CHECK_EQUAL(query(second), 1);
    CHECK_EQUAL(event_status(event), 0);
    CHECK_EQUAL(aclrtSynchronizeStreamWithTimeout(second, 5), 507046);
    CHECK_EQUAL(middle[0] + to[0], 0);
    CHECK_EQUAL(aclrtDestroyEvent(event), 0);  // whoever waits for it still does
    gate.is_open = true;
    CHECK_EQUAL(aclrtSynchronizeDevice(), 0);
    CHECK_EQUAL(query(first), 0);
    CHECK(to[0] == 'a' || to[0] == 'z');  // the second stream does not wait for what came after the event
    CHECK_EQUAL(middle[0], 'z');

    // An event that is recorded twice is complete when the second record is.
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&event, 1), 0);
    CHECK_EQUAL(event_status(event), 1);  // never recorded
    CHECK_EQUAL(aclrtRecordEvent(event, first), 0);
    CHECK_EQUAL(aclrtSynchronizeEvent(event), 0);
    Gate again;
    again.close(first);
    CHECK_EQUAL(aclrtRecordEvent(event, first), 0);
    CHECK_EQUAL(event_status(event), 0);
    again.is_open = true;
    CHECK_EQUAL(aclrtSynchronizeEvent(event), 0);
    CHECK_EQUAL(event_status(event), 1);
    CHECK_EQUAL(aclrtDestroyEvent(event), 0);
    for (void* stream : {first, second, third}) CHECK_EQUAL(aclrtDestroyStream(stream), 0);
}

void memory_that_is_freed() {
    void* stream = new_stream();
    void* block = nullptr;
    CHECK_EQUAL(aclrtMalloc(&block, 4096, 0), 0);
    Gate gate;
    gate.close(stream);
    CHECK_EQUAL(aclrtMemsetAsync(block, 4096, 1, 4096, stream), 0);
    std::thread opens([&gate] { gate.is_open = true; });
    CHECK_EQUAL(aclrtFree(block), 0);  // not before it is written
    opens.join();
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
}

void graphs() {
    void* stream = new_stream();
    void* graph = nullptr;
    static Gate gate;
    static int rounds = 0;
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, 2), 0);
    gate.close(stream);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, [](void*) { ++rounds; }, nullptr), 0);
    CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 0);
    CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 0);
    CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 0);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 107037);
    CHECK_EQUAL(rounds, 0);
    gate.is_open = true;
    CHECK_EQUAL(aclrtSynchronizeStream(stream), 0);
    CHECK_EQUAL(rounds, 2);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 0);
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
}

void failures() {
    void* stream = new_stream();
    void* event = nullptr;
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&event, 1), 0);
    Gate gate;
    static std::atomic<int> ran{0};
    gate.close(stream);
    CHECK_EQUAL(aclrtLaunchHostFunc(
                    stream, [](void*) { virtual_npu_later_task_failed(0, "an index is out of range"); }, nullptr),
                0);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, [](void*) { ++ran; }, nullptr), 0);
    CHECK_EQUAL(aclrtRecordEvent(event, stream), 0);
    CHECK_EQUAL(query(stream), 1);  // no error yet
    gate.is_open = true;
    CHECK_EQUAL(aclrtSynchronizeStream(stream), 507015);
    CHECK(std::string(aclGetRecentErrMsg()).find("out of range") != std::string::npos);
    CHECK_EQUAL(aclrtSynchronizeEvent(event), 507015);
    CHECK_EQUAL(ran.load(), 0);
    CHECK_EQUAL(aclrtResetDevice(0), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, [](void*) { ++ran; }, nullptr), 0);
    CHECK_EQUAL(aclrtSynchronizeStream(stream), 0);
    CHECK_EQUAL(ran.load(), 1);
    CHECK_EQUAL(aclrtDestroyEvent(event), 0);
    CHECK_EQUAL(aclrtDestroyStreamForce(stream), 0);
}

}  // namespace

int main() {
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    order_and_waits();
    memory_that_is_freed();
    graphs();
    failures();
    // The program ends while a stream has work.
    aclrtLaunchHostFunc(
        new_stream(), [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }, nullptr);
    return 0;
}
