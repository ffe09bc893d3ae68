// Graphs: what was put on streams while they were captured, to be done again and again.
//
// A stream that is captured does nothing: everything becomes a task of the graph, in the order in which the host put it
// there. That order is one in which every task comes after those it has to wait for, so a replay does all of them one
// after the other on the stream where it was asked for. A stream that waits for an event recorded on a captured stream
// is captured too, until the first stream has waited for all that was put on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stream_work.h"

namespace virtual_npu {

enum GraphError : int {
    kGraphSuccess = 0,
    kGraphInvalidParameter = 107000,
    kGraphDependencyMissing = 107024,  // a captured stream waits for an event that is recorded outside of the graph
    kGraphUnjoined = 107025,           // a stream was not waited for when the capture ended
    kGraphCaptured = 107026,           // the graph is still captured
    kStreamCaptured = 107027,
    kEventCaptured = 107028,
    kStreamNotCaptured = 107029,
    kCaptureModeForbids = 107030,
    kDefaultStreamCaptured = 107031,
    kCaptureConflict = 107032,  // streams of two graphs wait for each other
    kTaskGroupStatus = 107033,
    kTaskGroupInterrupted = 107034,
    kCaptureUnmatched = 107036,  // the capture began on another stream
    kGraphRunning = 107037,
    kCaptureWrongThread = 107038,
    kTaskTypeUnsupported = 507009,
    kCaptureInvalidated = 507903,
};

enum CaptureMode : int { kCaptureGlobal = 0, kCaptureThreadLocal = 1, kCaptureRelaxed = 2 };
enum CaptureStatus : int { kNotCaptured = 0, kCaptureActive = 1, kCaptureFailed = 2 };

// A task of a graph: what it does can be replaced.
class GraphTask final : public StreamWork {
public:
    explicit GraphTask(StreamWorkPointer work) : work_(std::move(work)) {}
    bool is_ready() const override { return work_->is_ready(); }
    void run() override;
    bool is_kernel() const override { return work_->is_kernel(); }
    bool runs_on_failed_device() const override { return work_->runs_on_failed_device(); }
    void replace(StreamWorkPointer work) { work_ = std::move(work); }  // with the lock held

private:
    StreamWorkPointer work_;
};

// Tasks of a graph that can be replaced together.
struct TaskGroup {
    std::vector<std::shared_ptr<GraphTask>> tasks;
    bool is_updated = false;
};

// What a stream is about to replace.
struct TaskUpdate {
    std::shared_ptr<TaskGroup> group;
    std::vector<StreamWorkPointer> work;
};

// How many tasks of each stream are done wherever something has waited.
using StreamProgress = std::map<const Stream*, uint64_t>;

// An event that was recorded on a captured stream.
struct CapturedRecord {
    std::weak_ptr<Graph> graph;
    StreamProgress progress;
};

// A number in the memory of the device that decides which of several graphs is replayed.
struct GraphCondition {
    uint64_t value = 0;
    uint64_t initial = 0;
    bool is_assigned = false;  // at the begin of each replay
};

enum class Branch : int { kIf = 0, kWhile = 1, kSwitch = 2 };

class SHARED Graph : public std::enable_shared_from_this<Graph> {
public:
    // The graph of a handle; null if it is none, or destroyed.
    static std::shared_ptr<Graph> find(const void* handle);
    // All of them return 0 or a GraphError.
    static int begin(Stream* stream, int mode, std::shared_ptr<Graph> graph);  // null: a new one
    static int end(Stream* stream, std::shared_ptr<Graph>* graph);
    static int destroy(const std::shared_ptr<Graph>& graph);
    static std::shared_ptr<Graph> make();
    // Into which graph a stream is captured, if any, and whether that has failed.
    static CaptureStatus status_of(Stream* stream, std::shared_ptr<Graph>* graph);

    static int begin_group(Stream* stream);
    static int end_group(Stream* stream, void** handle);
    static int begin_update(Stream* stream, const void* handle);
    static int end_update(Stream* stream);

    // Events of captured streams. False if the stream is not captured.
    static bool record(Stream* stream, CapturedRecord* record);
    static bool is_captured_now(const CapturedRecord& record);
    // A stream waits for an event; `record` is what is known of its last record.
    static int wait(Stream* stream, const CapturedRecord& record, bool* is_done);

    // 0, or why a stream or a device cannot be waited for: it is captured. The capture fails with it.
    static int refuse_to_wait(const Stream* stream);
    static int refuse_to_wait_for_device(uint32_t device);
    // Whether functions that are not safe during captures (synchronous copies) are forbidden to the calling thread.
    static bool forbids_unsafe_calls();

    int replay(Stream* stream);
    bool is_captured() const { return state_ == State::kCaptured; }
    uint32_t number() const { return number_; }
    size_t task_count() const { return tasks_.size(); }

    GraphCondition* add_condition(uint64_t initial, bool is_assigned);
    int add_branches(Stream* stream, GraphCondition* condition, Branch branch, uint32_t count, void** graphs);

private:
    friend SHARED int put_work(Stream& stream, StreamWorkPointer work);
    friend class BranchWork;
    enum class State { kNew, kCaptured, kComplete };

    int add(Stream& stream, StreamWorkPointer work);
    void join(Stream& stream, const StreamProgress& progress);
    bool is_joined() const;
    bool concerns_this_thread() const;
    void leave_all_streams();
    void run_tasks();

    uint32_t number_ = 0;
    State state_ = State::kNew;
    bool failed_ = false;
    bool is_branch_ = false;
    const Stream* origin_ = nullptr;
    int mode_ = kCaptureGlobal;
    std::thread::id thread_;
    std::vector<std::shared_ptr<GraphTask>> tasks_;
    std::map<Stream*, StreamProgress> progress_;  // of the streams that are captured
    std::vector<std::shared_ptr<TaskGroup>> groups_;
    const Stream* group_stream_ = nullptr;  // where the last group is being recorded
    std::vector<std::unique_ptr<GraphCondition>> conditions_;
    std::vector<std::shared_ptr<Graph>> branches_;
    std::atomic<uint32_t> replays_{0};  // not finished
};

// The calling thread's mode; returns the one before. False if it is none.
SHARED bool exchange_capture_mode(int* mode);

SHARED std::unique_lock<std::mutex> lock_streams();

}  // namespace virtual_npu
