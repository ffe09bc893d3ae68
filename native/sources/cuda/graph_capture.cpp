#include "sources/cuda/graph_capture.h"

#include <atomic>

#include "core/writer/recorder.h"
#include "sources/cuda/devices.h"

namespace msmemscope::cuda {
namespace {

// Results with which a capture has ended too (driver_types.h): it was invalidated, or work of it was not joined.
constexpr int kInvalidated = 901;
constexpr int kNotJoined = 904;

std::atomic<int> captures{0};

// Each function has a hook of its own.
enum Caller { kOfRuntime, kOfDriver };

template <Caller>
int begin(const Call<int(void*, int)>& call, void* stream, int mode) {
    const int result = call.real(stream, mode);
    if (result == kSuccess) {
        captures.fetch_add(1, std::memory_order_relaxed);
    }
    return result;
}

template <Caller>
int begin_into(const Call<int(void*, void*, const void*, const void*, std::size_t, int)>& call, void* stream,
               void* graph, const void* dependencies, const void* data, std::size_t count, int mode) {
    const int result = call.real(stream, graph, dependencies, data, count, mode);
    if (result == kSuccess) {
        captures.fetch_add(1, std::memory_order_relaxed);
    }
    return result;
}

template <Caller>
int end(const Call<int(void*, void**)>& call, void* stream, void** graph) {
    const int result = call.real(stream, graph);
    if (result == kSuccess || result == kInvalidated || result == kNotJoined) {
        // Its beginning may have been missed.
        int before = captures.load(std::memory_order_relaxed);
        while (before > 0 && !captures.compare_exchange_weak(before, before - 1, std::memory_order_relaxed)) {
        }
    }
    return result;
}

constexpr const char* kSource = "cuda_graphs";

// The runtime asks the driver in its turn. Such a capture counts twice, at its begin as at its end.
constexpr Hook kHookList[] = {
    hook<&begin<kOfRuntime>>(nullptr, "cudaStreamBeginCapture", kSource),
    hook<&begin_into<kOfRuntime>>(nullptr, "cudaStreamBeginCaptureToGraph", kSource),
    hook<&end<kOfRuntime>>(nullptr, "cudaStreamEndCapture", kSource),
    hook<&begin<kOfDriver>>(nullptr, "cuStreamBeginCapture_v2", kSource),
    hook<&begin_into<kOfDriver>>(nullptr, "cuStreamBeginCaptureToGraph", kSource),
    hook<&end<kOfDriver>>(nullptr, "cuStreamEndCapture", kSource),
};

}  // namespace

bool is_capturing() noexcept { return captures.load(std::memory_order_relaxed) > 0; }

const HookTable kGraphCaptureHooks = table_of(kHookList, nullptr, Names::kAll);

}  // namespace msmemscope::cuda
