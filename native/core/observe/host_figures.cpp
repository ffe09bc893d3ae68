#include "core/observe/host_figures.h"

#include <algorithm>

#include "core/observe/container_looks.h"
#include "core/observe/resident_blocks.h"
#include "core/stacks/python_stack.h"
#include "core/writer/attributes.h"
#include "core/writer/control_group.h"
#include "core/writer/keep_errno.h"
#include "core/writer/process_memory.h"

namespace msmemscope::host_figures {
namespace {

// By Moment.
constexpr const char* kMoments[] = {nullptr, "begin", "import", "imported", "limit", "end"};

// The kernel looks at every page for what a process does not share. The time it takes is one in so many of the run.
constexpr std::uint64_t kOwnFigureNs = 200'000'000;
constexpr std::uint64_t kShareOfOwnFigures = 100;
constexpr std::uint64_t kOwnFigureOfFirstNs = 1'000'000'000;
constexpr std::uint64_t kShareOfOwnFiguresOfFirst = 500;
// It takes about 10 ms per gigabyte, in the middle of an allocation of the program.
constexpr std::uint64_t kMostForOwnFigure = 8UL << 30U;
// Lists of attributes are kept once each: figures of a coarse grain have few of them.
constexpr std::uint64_t kGrain = 64UL << 10U;
constexpr std::uint64_t kGrainsOfLimit = 1024;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t grain) noexcept { return (bytes + grain / 2) / grain * grain; }

// A forked process shares pages with its parent until one of them writes. Its own ones alone take room.
void add_own_memory(Attributes& attributes, ProcessState& state, std::uint64_t resident, bool is_last) noexcept {
    const std::uint64_t begin = clock_ns();
    if (!is_forked(state) && resident > kMostForOwnFigure) {
        return;
    }
    if (!is_last && begin < state.own_figure_ns.load(std::memory_order_relaxed)) {
        return;
    }
    const OwnMemory own = own_memory();
    if (is_forked(state)) {
        attributes.number(format::AttributeKey::kPrivateBytes, own.private_bytes);
    }
    attributes.number(format::AttributeKey::kProportionalBytes, rounded(own.proportional_bytes, kGrain));
    set_next_own_figure(state, begin);
}

// Whether the group has come near to its limit since it was far from it.
bool comes_near(ProcessState& state, const GroupMemory& group) noexcept {
    if (group.limit == 0) {
        return false;
    }
    if (group.used < group.limit / 10 * 8) {
        state.is_near_limit.store(false, std::memory_order_relaxed);
    }
    return group.is_near_limit() && !state.is_near_limit.exchange(true, std::memory_order_relaxed);
}

// shared: the part without a file on a disk, which is included in the part with a file. unrecorded: of samples.
void add_parts(Attributes& attributes, std::uint64_t shared, std::uint64_t unrecorded) noexcept {
    if (shared != 0) {
        attributes.number(format::AttributeKey::kSharedBytes, rounded(shared, kGrain));
    }
    if (unrecorded != 0) {
        attributes.number(format::AttributeKey::kUnrecordedBytes, rounded(unrecorded, kGrain));
    }
}

}  // namespace

bool is_forked(const ProcessState& state) noexcept {
    return state.epoch.load(std::memory_order_acquire) == 0 || state.is_forked.load(std::memory_order_relaxed);
}

// Of a forked process they come more often: what it copies of its parent is seen by them alone.
void set_next_own_figure(ProcessState& state, std::uint64_t begin) noexcept {
    const std::uint64_t end = clock_ns();
    const std::uint64_t pause = is_forked(state)
                                    ? std::max(kOwnFigureNs, (end - begin) * kShareOfOwnFigures)
                                    : std::max(kOwnFigureOfFirstNs, (end - begin) * kShareOfOwnFiguresOfFirst);
    state.own_figure_ns.store(end + pause, std::memory_order_relaxed);
}

void forget_begin(ProcessState& state) noexcept {
    state.first_figure.anonymous.store(0, std::memory_order_relaxed);
    state.first_figure.timestamp_ns.store(0, std::memory_order_relaxed);
}

void note_begin(ProcessState& state, Heap heap) noexcept {
    FirstFigure& first = state.first_figure;
    if (python_imports()) {
        forget_begin(state);
        return;
    }
    if (first.timestamp_ns.load(std::memory_order_relaxed) != 0) {
        return;
    }
    std::uint64_t none = 0;
    if (!first.timestamp_ns.compare_exchange_strong(none, clock_ns(), std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    const ProcessMemory memory = process_memory();
    first.kept.store(heap == Heap::kIsFree ? kept_by_the_heap(nullptr, false) : 0, std::memory_order_relaxed);
    first.shared.store(shared_memory(), std::memory_order_relaxed);
    first.unrecorded.store(state.host_unrecorded_bytes.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.of_files.store(memory.resident - memory.anonymous, std::memory_order_relaxed);
    first.anonymous.store(memory.anonymous, std::memory_order_release);
}

void write_begin(const RecordingScope& scope, ProcessState& state) noexcept {
    FirstFigure& first = state.first_figure;
    const std::uint64_t anonymous = first.anonymous.exchange(0, std::memory_order_acquire);
    if (anonymous == 0) {
        return;
    }
    Event event{format::EventKind::kHostMemory};
    event.size = static_cast<std::int64_t>(anonymous);
    event.address = first.kept.load(std::memory_order_relaxed);
    event.extra = first.of_files.load(std::memory_order_relaxed);
    event.timestamp_ns = first.timestamp_ns.load(std::memory_order_relaxed);
    Attributes attributes(scope);
    attributes.text(format::AttributeKey::kWhen, kMoments[static_cast<std::size_t>(Moment::kBegin)]);
    add_parts(attributes, first.shared.load(std::memory_order_relaxed),
              first.unrecorded.load(std::memory_order_relaxed));
    event.attribute_id = attributes.id();
    append_here(state, event);
}

void write_figure(const RecordingScope& scope, ProcessState& state, Moment moment, Heap heap) noexcept {
    const KeepErrno keep_errno;
    const ProcessMemory memory = process_memory();
    if (memory.anonymous == 0) {
        return;
    }
    Event event{format::EventKind::kHostMemory};
    event.size = static_cast<std::int64_t>(memory.anonymous);
    if (heap == Heap::kIsFree) {
        event.address = kept_by_the_heap(&state.heap_pages, moment == Moment::kEnd);
    }
    event.extra = memory.resident - memory.anonymous;
    const GroupMemory group = group_memory();
    if (comes_near(state, group)) {
        moment = moment == Moment::kAny ? Moment::kNearLimit : moment;
        container_looks::ask_now();
    }
    using resident_blocks::Asking;
    resident_blocks::tell(state, moment == Moment::kEnd         ? Asking::kAtEnd
                                 : moment == Moment::kNearLimit ? Asking::kNearLimit
                                                                : Asking::kIfDue);
    Attributes attributes(scope);
    if (moment != Moment::kAny) {
        attributes.text(format::AttributeKey::kWhen, kMoments[static_cast<std::size_t>(moment)]);
    }
    add_parts(attributes, shared_memory(), state.host_unrecorded_bytes.load(std::memory_order_relaxed));
    if (group.limit != 0) {
        const std::uint64_t grain = std::max(kGrain, group.limit / kGrainsOfLimit);
        attributes.number(format::AttributeKey::kGroupBytes, rounded(group.used, grain));
        attributes.number(format::AttributeKey::kGroupLimit, group.limit);
    }
    add_own_memory(attributes, state, memory.resident, moment == Moment::kEnd);
    event.attribute_id = attributes.id();
    append_here(state, event);
}

}  // namespace msmemscope::host_figures
