// The functions of graphs (aclmdlRI...); what they do is in graph.h. The handle of a graph is the object itself, looked
// up before it is used.
#include <cstdint>
#include <cstdio>
#include <memory>

#include "graph.h"
#include "on_stream.h"
#include "runtime_errors.h"
#include "streams.h"

namespace virtual_npu {
namespace {

// As the header of the real runtime has it.
struct BranchParameters {
    void* condition;
    int branch;
    uint32_t count;
    void** graphs;
};

int no_graph(const void* handle) {
    return fail(kAclInvalidParameter, "EE1001: %p is not a graph, or it is destroyed", handle);
}

int begin_capture(void* stream, int mode, std::shared_ptr<Graph> graph) {
    if (!is_stream(stream)) return no_stream(stream);
    return stream_result(Graph::begin(static_cast<Stream*>(stream), mode, std::move(graph)), "a capture begins");
}

}  // namespace
}  // namespace virtual_npu

using virtual_npu::Graph;
using virtual_npu::kAclSuccess;
using virtual_npu::Stream;
using virtual_npu::stream_result;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int aclmdlRICaptureBegin(void* stream, int mode) { return virtual_npu::begin_capture(stream, mode, nullptr); }

EXPORTED int aclmdlRICaptureToModelRIBegin(void* stream, void* handle, int mode) {
    std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    return virtual_npu::begin_capture(stream, mode, std::move(graph));
}

// For a branch of another graph the caller may have no use for the handle.
EXPORTED int aclmdlRICaptureEnd(void* stream, void** handle) {
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    std::shared_ptr<Graph> graph;
    const int status = stream_result(Graph::end(static_cast<Stream*>(stream), &graph), "a capture ends");
    if (handle != nullptr) *handle = graph.get();
    return status;
}

EXPORTED int aclmdlRICaptureGetInfo(void* stream, int* status, void** handle) {
    if (status == nullptr || handle == nullptr) return virtual_npu::no_room();
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    std::shared_ptr<Graph> graph;
    *status = Graph::status_of(static_cast<Stream*>(stream), &graph);
    *handle = graph.get();
    return kAclSuccess;
}

EXPORTED int aclmdlRICaptureThreadExchangeMode(int* mode) {
    if (mode == nullptr) return virtual_npu::no_room();
    if (virtual_npu::exchange_capture_mode(mode)) return kAclSuccess;
    return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: %d is not a mode of captures", *mode);
}

EXPORTED int aclmdlRIExecuteAsync(void* handle, void* stream_handle) {
    const int status = virtual_npu_stream_status(stream_handle);
    if (status != kAclSuccess) return status;
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    Stream* stream = virtual_npu::stream_of(stream_handle);
    if (stream == nullptr) return virtual_npu::kAclNoContext;
    const int replayed = stream_result(graph->replay(stream), "a graph is replayed");
    return replayed == kAclSuccess ? virtual_npu_stream_status(stream_handle) : replayed;
}

EXPORTED int aclmdlRIDestroy(void* handle) {
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    return stream_result(Graph::destroy(graph), "a graph is destroyed");
}

EXPORTED int aclmdlRIGetId(void* handle, uint32_t* number) {
    if (number == nullptr) return virtual_npu::no_room();
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    *number = graph->number();
    return kAclSuccess;
}

EXPORTED int aclmdlRIDebugPrint(void* handle) {
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    std::fprintf(stderr, "[vnpu] graph %u: %zu tasks\n", graph->number(), graph->task_count());
    return kAclSuccess;
}

EXPORTED int aclmdlRIDebugJsonPrint(void* handle, const char* path, uint32_t) {
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) {
        return virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: %s cannot be written",
                                 path == nullptr ? "a null path" : path);
    }
    std::fprintf(file, "{\"graph\": %u, \"tasks\": %zu}\n", graph->number(), graph->task_count());
    return std::fclose(file) == 0
               ? static_cast<int>(kAclSuccess)
               : virtual_npu::fail(virtual_npu::kAclInvalidParameter, "EE1001: %s is not written", path);
}

EXPORTED int aclmdlRICaptureTaskGrpBegin(void* stream) {
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return stream_result(Graph::begin_group(static_cast<Stream*>(stream)), "a group of tasks begins");
}

EXPORTED int aclmdlRICaptureTaskGrpEnd(void* stream, void** handle) {
    if (handle == nullptr) return virtual_npu::no_room();
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return stream_result(Graph::end_group(static_cast<Stream*>(stream), handle), "a group of tasks ends");
}

EXPORTED int aclmdlRICaptureTaskUpdateBegin(void* stream, void* handle) {
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return stream_result(Graph::begin_update(static_cast<Stream*>(stream), handle), "an update of tasks begins");
}

EXPORTED int aclmdlRICaptureTaskUpdateEnd(void* stream) {
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    return stream_result(Graph::end_update(static_cast<Stream*>(stream)), "an update of tasks ends");
}

EXPORTED int aclmdlRICondHandleCreate(void* handle, uint32_t initial, int flags, void** condition) {
    if (condition == nullptr) return virtual_npu::no_room();
    const std::shared_ptr<Graph> graph = Graph::find(handle);
    if (graph == nullptr) return virtual_npu::no_graph(handle);
    constexpr int kAssign = 1;
    *condition = graph->add_condition(initial, (flags & kAssign) != 0);
    return kAclSuccess;
}

// The device of this machine is its host: a kernel writes the condition where it is.
EXPORTED int aclmdlRICondHandleGetCondPtr(void* condition, uint64_t** pointer) {
    if (condition == nullptr || pointer == nullptr) return virtual_npu::no_room();
    *pointer = &static_cast<virtual_npu::GraphCondition*>(condition)->value;
    return kAclSuccess;
}

EXPORTED int aclmdlRIAddCondTask(virtual_npu::BranchParameters parameters, void* stream, uint32_t) {
    if (!virtual_npu::is_stream(stream)) return virtual_npu::no_stream(stream);
    std::shared_ptr<Graph> graph;
    if (Graph::status_of(static_cast<Stream*>(stream), &graph) == virtual_npu::kNotCaptured) {
        return stream_result(virtual_npu::kStreamNotCaptured, "a branch is added");
    }
    const auto branch = static_cast<virtual_npu::Branch>(parameters.branch);
    const uint32_t most = branch == virtual_npu::Branch::kIf      ? 2
                          : branch == virtual_npu::Branch::kWhile ? 1
                                                                  : UINT32_MAX;
    if (parameters.condition == nullptr || parameters.graphs == nullptr || parameters.branch < 0 ||
        branch > virtual_npu::Branch::kSwitch || parameters.count == 0 || parameters.count > most) {
        return stream_result(virtual_npu::kAclInvalidParameter, "a branch is added");
    }
    return stream_result(graph->add_branches(static_cast<Stream*>(stream),
                                             static_cast<virtual_npu::GraphCondition*>(parameters.condition), branch,
                                             parameters.count, parameters.graphs),
                         "a branch is added");
}
