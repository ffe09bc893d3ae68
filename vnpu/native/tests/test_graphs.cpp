// Graphs as torch_npu calls them: what is captured, what a replay does, how tasks are replaced, what is refused.
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "kernel_launch.h"

extern "C" {
int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtMemcpy(void*, size_t, const void*, size_t, int);
int aclrtMemcpyAsync(void*, size_t, const void*, size_t, int, void*);
int aclrtMemset(void*, size_t, int32_t, size_t);
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
int aclrtResetEvent(void*, void*);
int aclrtStreamWaitEvent(void*, void*);
int aclrtQueryEventStatus(void*, int32_t*);
int aclrtSynchronizeEvent(void*);
int aclrtLaunchHostFunc(void*, void (*)(void*), void*);
int aclmdlRICaptureBegin(void*, int);
int aclmdlRICaptureToModelRIBegin(void*, void*, int);
int aclmdlRICaptureEnd(void*, void**);
int aclmdlRICaptureGetInfo(void*, int*, void**);
int aclmdlRICaptureThreadExchangeMode(int*);
int aclmdlRIExecuteAsync(void*, void*);
int aclmdlRIDestroy(void*);
int aclmdlRIGetId(void*, uint32_t*);
int aclmdlRICaptureTaskGrpBegin(void*);
int aclmdlRICaptureTaskGrpEnd(void*, void**);
int aclmdlRICaptureTaskUpdateBegin(void*, void*);
int aclmdlRICaptureTaskUpdateEnd(void*);
int aclmdlRICondHandleCreate(void*, uint32_t, int, void**);
int aclmdlRICondHandleGetCondPtr(void*, uint64_t**);
struct Branches {
    void* condition;
    int kind;
    uint32_t count;
    void** graphs;
};
int aclmdlRIAddCondTask(Branches, void*, uint32_t);
const char* aclGetRecentErrMsg();
}

namespace {

enum Mode { kGlobal, kThreadLocal, kRelaxed };

void* new_stream() {
    void* stream = nullptr;
    CHECK_EQUAL(aclrtCreateStream(&stream), 0);
    return stream;
}

std::vector<void*> events;

void* new_event(uint32_t flags = 1) {
    void* event = nullptr;
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&event, flags), 0);
    events.push_back(event);
    return event;
}

// A kernel that adds a number to another one. Its arguments are copied where it runs later.
struct Addition {
    int* target;
    int amount;
};
int copies = 0;

void launch_addition(void* stream, int* target, int amount) {
    static void* const kernel = virtual_npu_kernel_function(
        "addition",
        [](void* arguments) {
            auto* addition = static_cast<Addition*>(arguments);
            *addition->target += addition->amount;
        },
        [](void* arguments) -> void* { return ++copies, new Addition(*static_cast<Addition*>(arguments)); },
        [](void* kept) { --copies, delete static_cast<Addition*>(kept); });
    Addition addition{target, amount};
    CHECK_EQUAL(rtLaunchKernelByFuncHandleV2(kernel, 1, &addition, stream, nullptr), 0);
}

void* end_capture(void* stream) {
    void* graph = nullptr;
    CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 0);
    CHECK(graph != nullptr);
    return graph;
}

void every_kind_of_task() {
    void* stream = new_stream();
    int sum = 0;
    int called = 0;
    char source[4] = "abc";
    char target[4] = "";
    char filled[4] = "";
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kThreadLocal), 0);
    launch_addition(stream, &sum, 2);
    CHECK_EQUAL(aclrtMemcpyAsync(target, 4, source, 4, 3, stream), 0);
    CHECK_EQUAL(aclrtMemsetAsync(filled, 4, 'x', 3, stream), 0);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, [](void* count) { ++*static_cast<int*>(count); }, &called), 0);
    int status = -1;
    void* graph = nullptr;
    CHECK_EQUAL(aclmdlRICaptureGetInfo(stream, &status, &graph), 0);
    CHECK_EQUAL(status, 1);
    CHECK_EQUAL(sum + called + target[0] + filled[0], 0);  // nothing has happened
    CHECK(end_capture(stream) == graph);
    CHECK_EQUAL(aclmdlRICaptureGetInfo(stream, &status, &graph), 0);
    CHECK_EQUAL(status, 0);
    CHECK(graph == nullptr);
    CHECK_EQUAL(sum + called + target[0] + filled[0], 0);

    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kThreadLocal), 0);
    launch_addition(stream, &sum, 2);
    CHECK_EQUAL(aclrtMemcpyAsync(target, 4, source, 4, 3, stream), 0);
    CHECK_EQUAL(aclrtMemsetAsync(filled, 4, 'x', 3, stream), 0);
    CHECK_EQUAL(aclrtLaunchHostFunc(stream, [](void* count) { ++*static_cast<int*>(count); }, &called), 0);
    graph = end_capture(stream);
    for (int replay = 1; replay <= 3; ++replay) {
        source[0] = static_cast<char>('a' + replay);  // the same addresses, other contents
        filled[0] = 0;
        CHECK_EQUAL(aclmdlRIExecuteAsync(graph, replay == 2 ? nullptr : stream), 0);
        CHECK_EQUAL(sum, 2 * replay);
        CHECK_EQUAL(called, replay);
        CHECK_EQUAL(target[0], 'a' + replay);
        CHECK(std::strcmp(filled, "xxx") == 0);
    }
    CHECK(copies > 0);
    uint32_t number = 0;
    CHECK_EQUAL(aclmdlRIGetId(graph, &number), 0);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 0);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 107000);
    CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 107000);
    launch_addition(stream, &sum, 1);  // the stream is as before
    CHECK_EQUAL(sum, 7);
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
}

void several_streams() {
    void* first = new_stream();
    void* second = new_stream();
    void* third = new_stream();
    void* fork = new_event();
    void* join = new_event();
    std::vector<int> values(3);
    CHECK_EQUAL(aclmdlRICaptureBegin(first, kGlobal), 0);
    launch_addition(first, &values[0], 1);
    CHECK_EQUAL(aclrtRecordEvent(fork, first), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(second, fork), 0);
    launch_addition(second, &values[1], 10);
    CHECK_EQUAL(aclrtRecordEvent(join, second), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(third, join), 0);  // captured through the second one
    launch_addition(third, &values[2], 100);
    CHECK_EQUAL(values[1] + values[2], 0);
    int32_t status = -1;
    CHECK_EQUAL(aclrtQueryEventStatus(join, &status), 107028);
    CHECK_EQUAL(aclrtSynchronizeEvent(join), 107028);
    void* last = new_event();
    CHECK_EQUAL(aclrtRecordEvent(last, third), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(first, last), 0);
    void* graph = end_capture(first);
    CHECK_EQUAL(aclmdlRIExecuteAsync(graph, second), 0);
    CHECK((values == std::vector<int>{1, 10, 100}));
    launch_addition(third, &values[2], 1);  // not captured any more
    CHECK_EQUAL(values[2], 101);
    CHECK_EQUAL(aclrtSynchronizeEvent(join), 0);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 0);

    // The second stream goes on behind what the first one has waited for.
    CHECK_EQUAL(aclmdlRICaptureBegin(first, kGlobal), 0);
    CHECK_EQUAL(aclrtRecordEvent(fork, first), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(second, fork), 0);
    CHECK_EQUAL(aclrtRecordEvent(join, second), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(first, join), 0);
    launch_addition(second, &values[1], 1);
    CHECK_EQUAL(aclmdlRICaptureEnd(first, &graph), 107025);
    CHECK(graph == nullptr);
    CHECK(std::string(aclGetRecentErrMsg()).find("not waited for") != std::string::npos);

    // Of two captures neither waits for the other, and a capture does not wait for what is outside.
    void* outside = new_event();
    CHECK_EQUAL(aclrtRecordEvent(outside, third), 0);
    CHECK_EQUAL(aclmdlRICaptureBegin(first, kRelaxed), 0);
    CHECK_EQUAL(aclmdlRICaptureBegin(second, kRelaxed), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(first, outside), 107024);
    CHECK_EQUAL(aclrtRecordEvent(fork, first), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(second, fork), 107032);
    CHECK_EQUAL(aclrtStreamWaitEvent(nullptr, fork), 107031);
    CHECK_EQUAL(aclmdlRIDestroy(end_capture(second)), 0);
    CHECK_EQUAL(aclmdlRIDestroy(end_capture(first)), 0);
    for (void* stream : {first, second, third}) CHECK_EQUAL(aclrtDestroyStream(stream), 0);
}

void what_is_refused() {
    void* stream = new_stream();
    void* other = new_stream();
    void* graph = nullptr;
    char bytes[8];
    CHECK_EQUAL(aclmdlRICaptureBegin(nullptr, kGlobal), 107031);
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, 3), 107000);
    CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 107029);
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kGlobal), 0);
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kGlobal), 107027);
    CHECK_EQUAL(aclrtMemcpy(bytes, 8, "1234567", 8, 1), 107030);
    CHECK_EQUAL(aclrtMemset(bytes, 8, 0, 8), 107030);
    std::thread([&bytes] {
        CHECK_EQUAL(aclrtMemset(bytes, 8, 0, 8), 107030);
        int mode = kThreadLocal;
        CHECK_EQUAL(aclmdlRICaptureThreadExchangeMode(&mode), 0);
        CHECK_EQUAL(mode, static_cast<int>(kGlobal));
        CHECK_EQUAL(aclrtMemset(bytes, 8, 0, 8), 0);
    }).join();
    int mode = kRelaxed;
    CHECK_EQUAL(aclmdlRICaptureThreadExchangeMode(&mode), 0);
    CHECK_EQUAL(aclrtMemset(bytes, 8, 0, 8), 0);
    CHECK_EQUAL(aclmdlRICaptureThreadExchangeMode(&mode), 0);
    CHECK_EQUAL(mode, static_cast<int>(kRelaxed));
    mode = 3;
    CHECK_EQUAL(aclmdlRICaptureThreadExchangeMode(&mode), 107000);
    std::thread([stream] {
        void* unused = nullptr;
        CHECK_EQUAL(aclmdlRICaptureEnd(stream, &unused), 107038);
    }).join();
    CHECK_EQUAL(aclrtSynchronizeStream(other), 0);
    CHECK_EQUAL(aclmdlRIDestroy(end_capture(stream)), 0);

    // To wait for what is captured makes the capture fail.
    for (int (*wait)(void*) : {aclrtSynchronizeStream, aclrtDestroyStream}) {
        CHECK_EQUAL(aclmdlRICaptureBegin(stream, kThreadLocal), 0);
        CHECK_EQUAL(wait(stream), 107027);
        int status = 0;
        CHECK_EQUAL(aclmdlRICaptureGetInfo(stream, &status, &graph), 0);
        CHECK_EQUAL(status, 2);
        CHECK_EQUAL(aclrtMemsetAsync(bytes, 8, 0, 8, stream), 507903);
        CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 507903);
        CHECK(graph == nullptr);
    }
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kThreadLocal), 0);
    std::thread([] {
        CHECK_EQUAL(aclrtSetDevice(0), 0);
        CHECK_EQUAL(aclrtSynchronizeDevice(), 0);
    }).join();
    CHECK_EQUAL(aclrtSynchronizeDevice(), 107027);
    CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 507903);

    // A second stream of the capture cannot end it.
    void* fork = new_event();
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kGlobal), 0);
    CHECK_EQUAL(aclrtRecordEvent(fork, stream), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(other, fork), 0);
    CHECK_EQUAL(aclmdlRICaptureEnd(other, &graph), 107036);
    CHECK_EQUAL(aclmdlRICaptureEnd(stream, &graph), 107025);
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    CHECK_EQUAL(aclrtDestroyStream(other), 0);
}

// As a server of language models does it: the graph is started, and its attention waits until the lengths of this step
// are in it.
void replaced_tasks() {
    void* stream = new_stream();
    void* updates = new_stream();
    constexpr uint32_t kExternal = 0x20;
    void* event = new_event(kExternal);
    void* group = nullptr;
    int first = 0;
    int second = 0;
    CHECK_EQUAL(aclmdlRICaptureTaskGrpBegin(stream), 107029);
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kRelaxed), 0);
    CHECK_EQUAL(aclrtStreamWaitEvent(stream, event), 0);
    CHECK_EQUAL(aclrtResetEvent(event, stream), 0);
    CHECK_EQUAL(aclmdlRICaptureTaskGrpBegin(stream), 0);
    CHECK_EQUAL(aclmdlRICaptureTaskGrpBegin(stream), 107033);
    launch_addition(stream, &first, 1);
    CHECK_EQUAL(aclrtMemsetAsync(&second, 4, 0, 4, stream), 507009);
    CHECK_EQUAL(aclmdlRICaptureTaskGrpEnd(stream, &group), 0);
    CHECK_EQUAL(aclmdlRICaptureTaskGrpEnd(stream, &group), 107033);
    launch_addition(stream, &second, 1);
    CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(stream, group), 107027);
    void* graph = end_capture(stream);

    for (int step = 1; step <= 3; ++step) {
        CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 0);
        launch_addition(stream, &second, 100);  // behind the graph
        int32_t status = 0;
        CHECK_EQUAL(aclrtStreamQuery(stream, &status), 0);
        CHECK_EQUAL(status, 1);  // not complete
        CHECK_EQUAL(first, step == 1 ? 0 : step == 2 ? 10 : 30);
        CHECK_EQUAL(second, 101 * (step - 1));
        CHECK_EQUAL(aclrtSynchronizeStreamWithTimeout(stream, 5), 507046);
        CHECK_EQUAL(aclmdlRIDestroy(graph), 107037);

        CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(updates, &status), 107000);
        CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(updates, group), 0);
        CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(updates, group), 107033);
        launch_addition(updates, &first, 10 * step);
        CHECK_EQUAL(aclmdlRICaptureTaskUpdateEnd(updates), 0);
        CHECK_EQUAL(aclrtRecordEvent(event, updates), 0);
        CHECK_EQUAL(aclrtSynchronizeStream(stream), 0);
        CHECK_EQUAL(first, 10 * step * (step + 1) / 2);
        CHECK_EQUAL(second, 101 * step);
    }
    // Not as many tasks as the group has.
    CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(updates, group), 0);
    CHECK_EQUAL(aclmdlRICaptureTaskUpdateEnd(updates), 107033);
    CHECK_EQUAL(aclmdlRICaptureTaskUpdateEnd(updates), 107033);

    // Another thread may be the one that waits.
    CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 0);
    std::thread waiting([stream] { CHECK_EQUAL(aclrtSynchronizeStream(stream), 0); });
    CHECK_EQUAL(aclrtRecordEvent(event, updates), 0);
    waiting.join();
    CHECK_EQUAL(first, 90);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 0);
    CHECK_EQUAL(aclmdlRICaptureTaskUpdateBegin(updates, group), 107000);

    // A stream that is destroyed forgets what waits.
    CHECK_EQUAL(aclrtStreamWaitEvent(stream, event), 0);
    launch_addition(stream, &first, 1);
    CHECK_EQUAL(aclrtDestroyStreamForce(stream), 0);
    CHECK_EQUAL(aclrtRecordEvent(event, updates), 0);
    CHECK_EQUAL(first, 90);
    CHECK_EQUAL(aclrtDestroyStream(updates), 0);
}

void branches() {
    void* stream = new_stream();
    void* inner = new_stream();
    int status = 0;
    void* graph = nullptr;
    int taken = 0;
    int otherwise = 0;
    int rounds = 0;
    CHECK_EQUAL(aclmdlRICaptureBegin(stream, kRelaxed), 0);
    CHECK_EQUAL(aclmdlRICaptureGetInfo(stream, &status, &graph), 0);
    void* condition = nullptr;
    void* loop = nullptr;
    uint64_t* value = nullptr;
    uint64_t* left = nullptr;
    CHECK_EQUAL(aclmdlRICondHandleCreate(graph, 0, 0, &condition), 0);
    CHECK_EQUAL(aclmdlRICondHandleGetCondPtr(condition, &value), 0);
    CHECK_EQUAL(aclmdlRICondHandleCreate(graph, 3, 1, &loop), 0);  // 3 at the begin of each replay
    CHECK_EQUAL(aclmdlRICondHandleGetCondPtr(loop, &left), 0);
    void* bodies[2] = {};
    CHECK_EQUAL(aclmdlRIAddCondTask({condition, 0, 3, bodies}, stream, 0), 107000);
    CHECK_EQUAL(aclmdlRIAddCondTask({condition, 0, 2, bodies}, inner, 0), 107029);
    CHECK_EQUAL(aclmdlRIAddCondTask({condition, 0, 2, bodies}, stream, 0), 0);
    CHECK_EQUAL(aclmdlRICaptureToModelRIBegin(inner, bodies[0], kRelaxed), 0);
    launch_addition(inner, &taken, 1);
    CHECK_EQUAL(aclmdlRICaptureEnd(inner, nullptr), 0);
    CHECK_EQUAL(aclmdlRICaptureToModelRIBegin(inner, bodies[1], kRelaxed), 0);
    launch_addition(inner, &otherwise, 1);
    CHECK_EQUAL(aclmdlRICaptureEnd(inner, &bodies[1]), 0);
    CHECK_EQUAL(aclmdlRICaptureToModelRIBegin(inner, bodies[1], kRelaxed), 107026);
    CHECK_EQUAL(aclmdlRIAddCondTask({loop, 1, 1, bodies}, stream, 0), 0);
    CHECK_EQUAL(aclmdlRICaptureToModelRIBegin(inner, bodies[0], kRelaxed), 0);
    launch_addition(inner, &rounds, 1);
    CHECK_EQUAL(aclrtLaunchHostFunc(inner, [](void* count) { --*static_cast<uint64_t*>(count); }, left), 0);
    CHECK_EQUAL(aclmdlRICaptureEnd(inner, nullptr), 0);
    graph = end_capture(stream);
    for (const uint64_t chosen : {0, 1, 1}) {
        *value = chosen;
        CHECK_EQUAL(aclmdlRIExecuteAsync(graph, stream), 0);
    }
    CHECK_EQUAL(otherwise, 1);
    CHECK_EQUAL(taken, 2);
    CHECK_EQUAL(rounds, 9);
    CHECK_EQUAL(aclmdlRIDestroy(graph), 0);
    CHECK_EQUAL(aclrtDestroyStream(stream), 0);
    CHECK_EQUAL(aclrtDestroyStream(inner), 0);
}

}  // namespace

int main() {
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    every_kind_of_task();
    several_streams();
    what_is_refused();
    replaced_tasks();
    branches();
    CHECK_EQUAL(copies, 1);  // of the one graph that was not destroyed
    for (void* event : events) CHECK_EQUAL(aclrtDestroyEvent(event), 0);
    return 0;
}
