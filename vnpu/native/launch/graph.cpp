#include "graph.h"

#include <algorithm>
#include <set>

namespace virtual_npu {
namespace {

// All with the lock held.
std::map<const void*, std::shared_ptr<Graph>>& graphs() {
    static auto* table = new std::map<const void*, std::shared_ptr<Graph>>();
    return *table;
}
std::map<const void*, std::weak_ptr<TaskGroup>>& groups() {
    static auto* table = new std::map<const void*, std::weak_ptr<TaskGroup>>();
    return *table;
}
std::set<Graph*>& captures() {
    static auto* table = new std::set<Graph*>();
    return *table;
}
std::atomic<uint32_t> capture_count{0};

thread_local int thread_mode = kCaptureGlobal;

class Replacement final : public StreamWork {
public:
    explicit Replacement(std::shared_ptr<TaskUpdate> update) : update_(std::move(update)) {}
    void run() override {
        const auto lock = lock_streams();
        for (size_t index = 0; index < update_->work.size(); ++index) {
            update_->group->tasks[index]->replace(std::move(update_->work[index]));
        }
        update_->group->is_updated = false;
    }

private:
    const std::shared_ptr<TaskUpdate> update_;
};

// What a replay begins or ends with.
class Bracket final : public StreamWork {
public:
    Bracket(std::shared_ptr<Graph> graph, void (*body)(Graph&)) : graph_(std::move(graph)), body_(body) {}
    void run() override { body_(*graph_); }
    bool runs_on_failed_device() const override { return true; }

private:
    const std::shared_ptr<Graph> graph_;
    void (*const body_)(Graph&);
};

}  // namespace

// Replays one of several graphs, or one as long as the condition holds.
class BranchWork final : public StreamWork {
public:
    BranchWork(const GraphCondition* condition, Branch branch, std::vector<std::shared_ptr<Graph>> graphs)
        : condition_(condition), branch_(branch), graphs_(std::move(graphs)) {}
    void run() override {
        if (branch_ == Branch::kWhile) {
            while (value() != 0) graphs_.front()->run_tasks();
            return;
        }
        const uint64_t chosen = branch_ == Branch::kSwitch ? value() : value() != 0 ? 0 : 1;
        if (chosen < graphs_.size()) graphs_[chosen]->run_tasks();
    }

private:
    // The tasks of the graph write it.
    uint64_t value() const { return *const_cast<const volatile uint64_t*>(&condition_->value); }

    const GraphCondition* condition_;
    const Branch branch_;
    const std::vector<std::shared_ptr<Graph>> graphs_;
};

void GraphTask::run() {
    StreamWorkPointer work;
    {
        const auto lock = lock_streams();
        work = work_;
    }
    work->run();
}

std::shared_ptr<Graph> Graph::find(const void* handle) {
    const auto lock = lock_streams();
    const auto place = graphs().find(handle);
    return place == graphs().end() ? nullptr : place->second;
}

std::shared_ptr<Graph> Graph::make() {
    static std::atomic<uint32_t> next{0};
    auto graph = std::make_shared<Graph>();
    graph->number_ = next++;
    const auto lock = lock_streams();
    graphs()[graph.get()] = graph;
    return graph;
}

int Graph::begin(Stream* stream, int mode, std::shared_ptr<Graph> graph) {
    if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kGraphInvalidParameter;
    if (stream == nullptr || stream->number == 0) return kDefaultStreamCaptured;
    if (graph == nullptr) graph = make();
    const auto lock = lock_streams();
    if (stream->graph != nullptr || graph->state_ != State::kNew) {
        if (!graph->is_branch_) graphs().erase(graph.get());
        return stream->graph != nullptr ? kStreamCaptured : kGraphCaptured;
    }
    graph->state_ = State::kCaptured;
    graph->origin_ = stream;
    graph->mode_ = mode;
    graph->thread_ = std::this_thread::get_id();
    graph->join(*stream, {});
    captures().insert(graph.get());
    ++capture_count;
    return kGraphSuccess;
}

int Graph::end(Stream* stream, std::shared_ptr<Graph>* ended) {
    const auto lock = lock_streams();
    const std::shared_ptr<Graph> graph = stream == nullptr ? nullptr : stream->graph;
    if (graph == nullptr) return kStreamNotCaptured;
    if (graph->origin_ != stream) return kCaptureUnmatched;
    if (graph->mode_ != kCaptureRelaxed && graph->thread_ != std::this_thread::get_id()) return kCaptureWrongThread;
    int status = graph->failed_ ? kCaptureInvalidated : kGraphSuccess;
    if (status == kGraphSuccess && graph->group_stream_ != nullptr) status = kTaskGroupStatus;
    if (status == kGraphSuccess && !graph->is_joined()) status = kGraphUnjoined;
    for (const auto& branch : graph->branches_) {
        if (status == kGraphSuccess && branch->state_ == State::kCaptured) status = kGraphCaptured;
    }
    graph->leave_all_streams();
    graph->state_ = State::kComplete;
    captures().erase(graph.get());
    --capture_count;
    if (status == kGraphSuccess) {
        *ended = graph;
    } else if (!graph->is_branch_) {
        graphs().erase(graph.get());
    }
    return status;
}

int Graph::destroy(const std::shared_ptr<Graph>& graph) {
    const auto lock = lock_streams();
    if (graph->state_ == State::kCaptured) return kGraphCaptured;
    if (graph->replays_ != 0) return kGraphRunning;
    graphs().erase(graph.get());
    for (const auto& branch : graph->branches_) graphs().erase(branch.get());
    for (const auto& group : graph->groups_) groups().erase(group.get());
    return kGraphSuccess;
}

CaptureStatus Graph::status_of(Stream* stream, std::shared_ptr<Graph>* graph) {
    const auto lock = lock_streams();
    if (stream == nullptr || stream->graph == nullptr) return kNotCaptured;
    *graph = stream->graph;
    return stream->graph->failed_ ? kCaptureFailed : kCaptureActive;
}

// With the lock held, as are all that are private but run_tasks().
void Graph::join(Stream& stream, const StreamProgress& progress) {
    const bool is_new = stream.graph == nullptr;
    stream.graph = shared_from_this();
    stream.detours |= kIsCaptured;
    StreamProgress& own = progress_[&stream];
    for (const auto& [other, count] : progress) own[other] = std::max(own[other], count);
    // That it was captured is something to wait for, even if nothing is put on it.
    if (is_new) ++own[&stream];
}

bool Graph::is_joined() const {
    const StreamProgress& seen = progress_.at(const_cast<Stream*>(origin_));
    return std::all_of(progress_.begin(), progress_.end(), [&seen](const auto& entry) {
        const auto place = seen.find(entry.first);
        return place != seen.end() && place->second == entry.second.at(entry.first);
    });
}

void Graph::leave_all_streams() {
    for (auto& [stream, progress] : progress_) {
        if (stream->graph.get() != this) continue;
        stream->detours &= ~uint32_t{kIsCaptured};
        stream->graph.reset();
    }
    progress_.clear();
}

int Graph::add(Stream& stream, StreamWorkPointer work) {
    if (failed_) return kCaptureInvalidated;
    if (group_stream_ != nullptr) {
        if (group_stream_ != &stream) return kTaskGroupInterrupted;
        if (!work->is_kernel()) return kTaskTypeUnsupported;
    }
    tasks_.push_back(std::make_shared<GraphTask>(std::move(work)));
    if (group_stream_ != nullptr) groups_.back()->tasks.push_back(tasks_.back());
    ++progress_[&stream][&stream];
    return kGraphSuccess;
}

int Graph::begin_group(Stream* stream) {
    const auto lock = lock_streams();
    if (stream == nullptr || stream->graph == nullptr) return kStreamNotCaptured;
    Graph& graph = *stream->graph;
    if (graph.group_stream_ != nullptr) return kTaskGroupStatus;
    graph.groups_.push_back(std::make_shared<TaskGroup>());
    graph.group_stream_ = stream;
    return kGraphSuccess;
}

int Graph::end_group(Stream* stream, void** handle) {
    const auto lock = lock_streams();
    if (stream == nullptr || stream->graph == nullptr) return kStreamNotCaptured;
    Graph& graph = *stream->graph;
    if (graph.group_stream_ != stream) return kTaskGroupStatus;
    graph.group_stream_ = nullptr;
    groups()[graph.groups_.back().get()] = graph.groups_.back();
    *handle = graph.groups_.back().get();
    return kGraphSuccess;
}

int Graph::begin_update(Stream* stream, const void* handle) {
    const auto lock = lock_streams();
    const auto place = groups().find(handle);
    const std::shared_ptr<TaskGroup> group = place == groups().end() ? nullptr : place->second.lock();
    if (stream == nullptr || group == nullptr) return kGraphInvalidParameter;
    if (stream->graph != nullptr) return kStreamCaptured;
    if (stream->update != nullptr || group->is_updated) return kTaskGroupStatus;
    group->is_updated = true;
    stream->update = std::make_shared<TaskUpdate>(TaskUpdate{group, {}});
    stream->detours |= kUpdatesTasks;
    return kGraphSuccess;
}

// The tasks are replaced when the stream comes to it.
int Graph::end_update(Stream* stream) {
    std::shared_ptr<TaskUpdate> update;
    {
        const auto lock = lock_streams();
        if (stream == nullptr || stream->update == nullptr) return kTaskGroupStatus;
        update.swap(stream->update);
        stream->detours &= ~uint32_t{kUpdatesTasks};
        if (update->work.size() != update->group->tasks.size()) {
            update->group->is_updated = false;
            return kTaskGroupStatus;
        }
    }
    return put_work(*stream, std::make_shared<Replacement>(std::move(update)));
}

bool Graph::record(Stream* stream, CapturedRecord* record) {
    const auto lock = lock_streams();
    if (stream == nullptr || stream->graph == nullptr) return false;
    record->graph = stream->graph;
    record->progress = stream->graph->progress_[stream];
    return true;
}

bool Graph::is_captured_now(const CapturedRecord& record) {
    const std::shared_ptr<Graph> graph = record.graph.lock();
    return graph != nullptr && graph->is_captured();
}

int Graph::wait(Stream* stream, const CapturedRecord& record, bool* is_done) {
    const std::shared_ptr<Graph> graph = record.graph.lock();
    const auto lock = lock_streams();
    *is_done = graph != nullptr && graph->state_ == State::kCaptured;
    if (!*is_done) return stream->graph == nullptr ? kGraphSuccess : kGraphDependencyMissing;
    if (stream->number == 0) return kDefaultStreamCaptured;
    if (stream->graph != nullptr && stream->graph != graph) return kCaptureConflict;
    graph->join(*stream, record.progress);
    return kGraphSuccess;
}

int Graph::replay(Stream* stream) {
    if (state_ != State::kComplete) return kGraphCaptured;
    {
        const auto lock = lock_streams();
        if (stream->graph != nullptr) return kStreamCaptured;
    }
    ++replays_;
    int status = put_work(*stream, std::make_shared<Bracket>(shared_from_this(), [](Graph& graph) {
        for (const auto& condition : graph.conditions_) {
            if (condition->is_assigned) condition->value = condition->initial;
        }
    }));
    for (const auto& task : tasks_) {
        if (status == kGraphSuccess) status = put_work(*stream, task);
    }
    const int ended =
        put_work(*stream, std::make_shared<Bracket>(shared_from_this(), [](Graph& graph) { --graph.replays_; }));
    return status == kGraphSuccess ? ended : status;
}

// A branch, in the middle of a replay: its stream waits in it.
void Graph::run_tasks() {
    for (const auto& condition : conditions_) {
        if (condition->is_assigned) condition->value = condition->initial;
    }
    for (const auto& task : tasks_) {
        wait_for([](const void* waiting) { return static_cast<const GraphTask*>(waiting)->is_ready(); }, task.get(),
                 -1);
        task->run();
    }
}

GraphCondition* Graph::add_condition(uint64_t initial, bool is_assigned) {
    const auto lock = lock_streams();
    conditions_.push_back(std::make_unique<GraphCondition>(GraphCondition{initial, initial, is_assigned}));
    return conditions_.back().get();
}

int Graph::add_branches(Stream* stream, GraphCondition* condition, Branch branch, uint32_t count, void** handles) {
    std::vector<std::shared_ptr<Graph>> made(count);
    for (auto& graph : made) {
        graph = make();
        graph->is_branch_ = true;
    }
    const int status = put_work(*stream, std::make_shared<BranchWork>(condition, branch, made));
    const auto lock = lock_streams();
    for (uint32_t index = 0; index < count; ++index) {
        if (status == kGraphSuccess) {
            branches_.push_back(made[index]);
            handles[index] = made[index].get();
        } else {
            graphs().erase(made[index].get());
        }
    }
    return status;
}

int Graph::refuse_to_wait(const Stream* stream) {
    if (capture_count.load(std::memory_order_relaxed) == 0) return kGraphSuccess;
    const auto lock = lock_streams();
    if (stream->graph == nullptr) return kGraphSuccess;
    stream->graph->failed_ = true;
    return kStreamCaptured;
}

int Graph::refuse_to_wait_for_device(uint32_t device) {
    if (capture_count.load(std::memory_order_relaxed) == 0) return kGraphSuccess;
    const auto lock = lock_streams();
    int status = kGraphSuccess;
    for (Graph* graph : captures()) {
        if (graph->origin_->device != device || !graph->concerns_this_thread()) continue;
        graph->failed_ = true;
        status = kStreamCaptured;
    }
    return status;
}

bool Graph::forbids_unsafe_calls() {
    if (capture_count.load(std::memory_order_relaxed) == 0 || thread_mode == kCaptureRelaxed) return false;
    const auto lock = lock_streams();
    return std::any_of(captures().begin(), captures().end(), [](const Graph* graph) {
        return graph->mode_ != kCaptureRelaxed && graph->concerns_this_thread();
    });
}

bool Graph::concerns_this_thread() const {
    return thread_ == std::this_thread::get_id() || (mode_ == kCaptureGlobal && thread_mode == kCaptureGlobal);
}

bool exchange_capture_mode(int* mode) {
    if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed) return false;
    std::swap(*mode, thread_mode);
    return true;
}

}  // namespace virtual_npu
