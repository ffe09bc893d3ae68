#include "backward_calls.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/writer/recorder.h"
#include "core/writer/settings.h"
#include "loaded_library.h"
#include "python_stack_walker.h"

namespace msmemscope {
namespace {

using GraphTask = int (*)();

constexpr std::size_t kMostFrames = 256;

GraphTask ask_graph_task = nullptr;  // below 0 in a thread that works for no backward pass
PyCFunctionWithKeywords real_run_backward = nullptr;
PyMethodDef our_method;

// The outermost calls that run now, of all threads. Written under the GIL; ids mean nothing in another epoch.
struct RunningCalls {
    std::uint64_t epoch;
    std::uint32_t count;
    std::uint32_t stack_id;
    std::uint32_t version;
};
RunningCalls running{};

// The part that the engine's threads read without the GIL. `told` has the version and the stack id in one word, or 0
// while there is nothing to tell. The frames belong to it if it is the same before and after they were read.
std::atomic<std::uint64_t> told{0};
std::atomic<std::uint64_t> told_epoch{0};
std::atomic<std::uint64_t> told_frames[kMostFrames];
std::atomic<std::size_t> told_count{0};
static_assert(sizeof(format::PythonFrame) == sizeof(std::uint64_t));

struct ThreadCalls {
    std::uint32_t depth;
    bool is_of_engine;
};
__thread ThreadCalls calls_of_thread{};

bool is_of_engine() noexcept {
    return calls_of_thread.depth != 0 ? calls_of_thread.is_of_engine : ask_graph_task() >= 0;
}

void tell(const format::PythonFrame* frames, std::size_t count) noexcept {
    told.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    count = std::min(count, kMostFrames);
    for (std::size_t index = 0; index < count; ++index) {
        std::uint64_t frame = 0;
        std::memcpy(&frame, &frames[index], sizeof(frame));
        told_frames[index].store(frame, std::memory_order_relaxed);
    }
    told_count.store(count, std::memory_order_relaxed);
    told_epoch.store(running.epoch, std::memory_order_relaxed);
    told.store(std::uint64_t{running.version} << 32U | running.stack_id, std::memory_order_release);
}

// Returns the version of what is told, 0 if the call is not noted.
std::uint32_t begin_call() noexcept {
    const std::uint32_t depth = recorder::is_collecting() ? recorder::settings().python_stack_depth : 0;
    if (depth == 0) {
        return 0;
    }
    const RecordingScope scope(false);
    const format::PythonFrame* frames = nullptr;
    const std::size_t count = scope ? read_python_stack(scope, depth, &frames) : 0;
    const std::uint32_t stack_id = count == 0 ? 0 : recorder::intern_python_stack(scope, frames, count);
    if (stack_id == 0) {
        return 0;
    }
    if (running.count == 0 || running.epoch != recorder::epoch()) {
        const std::uint32_t version = running.version + 1 == 0 ? 1 : running.version + 1;
        running = RunningCalls{recorder::epoch(), 0, stack_id, version};
        tell(frames, count);
    } else if (running.stack_id != stack_id) {
        told.store(0, std::memory_order_relaxed);
    }
    ++running.count;
    return running.version;
}

void end_call(std::uint32_t version) noexcept {
    if (version != 0 && version == running.version && --running.count == 0) {
        told.store(0, std::memory_order_relaxed);
    }
}

// Only the outermost call of a thread counts. Calls within a backward pass belong to the one who called that pass.
class BackwardCall {
public:
    BackwardCall() noexcept {
        if (calls_of_thread.depth == 0) {
            calls_of_thread.is_of_engine = ask_graph_task() >= 0;
            version_ = calls_of_thread.is_of_engine ? 0 : begin_call();
        }
        ++calls_of_thread.depth;
    }
    ~BackwardCall() {
        --calls_of_thread.depth;
        end_call(version_);
    }
    BackwardCall(const BackwardCall&) = delete;
    BackwardCall& operator=(const BackwardCall&) = delete;

private:
    std::uint32_t version_ = 0;
};

PyObject* run_backward(PyObject* engine, PyObject* arguments, PyObject* keywords) {
    const BackwardCall call;
    return real_run_backward(engine, arguments, keywords);
}

}  // namespace

bool note_backward_calls(PyObject* engine_type) {
    constexpr int kFlags = METH_VARARGS | METH_KEYWORDS;
    if (real_run_backward != nullptr) {
        return true;
    }
    ask_graph_task = reinterpret_cast<GraphTask>(
        find_in_library("libtorch_cpu.so", "_ZN5torch8autograd25get_current_graph_task_idEv"));
    // Of a type, a method is the descriptor itself. The reference stays: it is ours from now on.
    PyObject* const method = PyObject_GetAttrString(engine_type, "run_backward");
    PyErr_Clear();
    if (ask_graph_task == nullptr || method == nullptr || !Py_IS_TYPE(method, &PyMethodDescr_Type)) {
        return false;
    }
    auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(method);
    if (descriptor->d_method->ml_flags != kFlags) {
        return false;
    }
    our_method = *descriptor->d_method;
    real_run_backward = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void (*)()>(our_method.ml_meth));
    our_method.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_backward));
    descriptor->d_method = &our_method;
    return true;
}

std::uint32_t backward_caller() noexcept {
    const std::uint64_t seen = told.load(std::memory_order_acquire);
    const bool is_told = seen != 0 && told_epoch.load(std::memory_order_relaxed) == recorder::epoch();
    return is_told && is_of_engine() ? static_cast<std::uint32_t>(seen) : 0;
}

std::size_t copy_backward_caller(format::PythonFrame* frames, std::size_t capacity) noexcept {
    const std::uint64_t seen = told.load(std::memory_order_acquire);
    const std::size_t count = std::min(told_count.load(std::memory_order_relaxed), capacity);
    for (std::size_t index = 0; index < count; ++index) {
        const std::uint64_t frame = told_frames[index].load(std::memory_order_relaxed);
        std::memcpy(&frames[index], &frame, sizeof(frame));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return seen != 0 && told.load(std::memory_order_relaxed) == seen ? count : 0;
}

}  // namespace msmemscope
