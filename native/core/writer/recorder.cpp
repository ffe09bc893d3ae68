#include "core/writer/recorder.h"

#include <time.h>

#include <cstdio>

#include "core/stacks/native_stack.h"
#include "core/stacks/python_stack.h"
#include "watch/watch.h"
#include "core/writer/process_state.h"
#include "core/writer/steps.h"
#include "core/writer/texts.h"

namespace msmemscope {
namespace {

Settings current_settings;
std::atomic<std::uint32_t> known_python_version{0};
// Of stacks that are taken whatever the settings say.
constexpr std::uint32_t kDepthOnRequest = 50;

inline std::uint64_t clock_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
}

__attribute__((always_inline)) inline void write_record(format::Record& record, const Event& event,
                                                        std::uint64_t sequence) noexcept {
    record.timestamp_ns = event.timestamp_ns != 0 ? event.timestamp_ns : clock_ns();
    record.address = event.address;
    record.size = event.size;
    record.thread_id = thread_handle.thread_id;
    record.device = event.device;
    record.kind = event.kind;
    record.pool = event.pool;
    record.flags = event.flags;
    record.name_id = event.name_id;
    record.attribute_id = event.attribute_id;
    record.python_stack_id = event.python_stack_id;
    record.native_stack_id = event.native_stack_id;
    record.extra = event.extra;
    // The commit marker: whoever sees it sees the rest.
    __atomic_store_n(&record.sequence, sequence, __ATOMIC_RELEASE);
}

__attribute__((noinline)) void count_lost_event(ProcessState& state) noexcept {
    if ((current_settings.events & kSelectAlloc) != 0) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
    }
}

// The hot path, inlined where events are made, so that they are never put together in memory first.
// numbers: that the record takes, of which it has the first.
__attribute__((always_inline)) inline std::uint64_t append_here(ProcessState& state, const Event& event,
                                                                std::uint64_t numbers = 1) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || state.failed.load(std::memory_order_relaxed) ||
        (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return 0;
    }
    // Fresh pages are not in the cache; a prefetch past the end of the chunk does no harm.
    __builtin_prefetch(thread->events.cursor + 4 * sizeof(format::Record), 1);
    const std::uint64_t sequence = state.sequence.fetch_add(numbers, std::memory_order_relaxed);
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
    return sequence;
}

inline void take_stacks(const RecordingScope& scope, Event& event, const CallSite& site, bool python) noexcept {
    if (python) {
        event.python_stack_id = take_python_stack(scope, current_settings.python_stack_depth);
    }
    if (current_settings.native_stack_depth != 0) {
        event.native_stack_id = take_native_stack(scope, current_settings.native_stack_depth, site);
    }
}

// The MALLOC of a block that was alive when collection began; its sequence number has been claimed.
void write_existing(const RecordingScope& scope, ProcessState& state, const LiveBlock& block) noexcept {
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return;
    }
    Event event{format::EventKind::kMalloc};
    event.pool = block.pool;
    event.device = block.device;
    event.flags = format::kFlagShadow;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.attribute_id = texts::string_id(scope, block.attributes);
    event.extra = texts::string_id(scope, block.labels);
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, block.sequence);
    thread->events.cursor += sizeof(format::Record);
}

// Collection may have begun after it was looked at and before the block could be found: then nobody else records it.
__attribute__((noinline)) void record_if_collection_began(const RecordingScope& scope, ProcessState& state,
                                                          LiveBlock block) noexcept {
    __sync_synchronize();
    if ((state.collecting.load(std::memory_order_relaxed) & kSelectAlloc) != 0 &&
        current_settings.observes(block.device) &&
        state.live_blocks.claim_one(block, state.sequence.fetch_add(1, std::memory_order_relaxed))) {
        write_existing(scope, state, block);
    }
}

}  // namespace

std::uint64_t now_ns() noexcept { return clock_ns(); }

std::uint32_t python_version_hex() noexcept { return known_python_version.load(std::memory_order_relaxed); }

RecordingScope::RecordingScope(bool count_drop) noexcept : entered_(false) {
    ProcessState* const state = process_state;
    if (state == nullptr) {
        return;
    }
    if (thread_handle.depth != 0) {
        if (count_drop) {
            count(state->dropped.reentrant, &format::ProcessHeader::dropped_reentrant);
        }
        return;
    }
    thread_handle.depth = 1;
    // Handlers of signals that arrive from here on see the mark.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state->epoch.load(std::memory_order_acquire) == 0 && !initialise_after_fork(*state)) {
        thread_handle.depth = 0;
        return;
    }
    entered_ = true;
}

RecordingScope::~RecordingScope() {
    if (entered_) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        thread_handle.depth = 0;
    }
}

namespace recorder {

bool configure(const char* settings_text) noexcept {
    if (!current_settings.parse(settings_text)) {
        return false;
    }
    if (process_state == nullptr && !create_process_state()) {
        return false;
    }
    watch::apply_settings();
    if (current_settings.collect_immediately) {
        note_immediate_tracing();
    }
    if (current_settings.collect_immediately && current_settings.first_step_selected) {
        collecting_across_fork.store(current_settings.events, std::memory_order_relaxed);
        process_state->collecting.store(current_settings.events, std::memory_order_release);
    }
    return true;
}

bool is_configured() noexcept { return process_state != nullptr; }
const Settings& settings() noexcept { return current_settings; }

bool observes_npu(int device) noexcept {
    if (settings().observes_npu(device)) {
        return true;
    }
    static std::atomic<std::uint32_t> noted{0};
    const std::uint32_t bit = device >= 0 && device < 32 ? std::uint32_t{1} << static_cast<unsigned>(device) : 0;
    if ((noted.load(std::memory_order_relaxed) & bit) != bit &&
        (noted.fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
        char name[16];
        std::snprintf(name, sizeof(name), "npu:%d", device);
        note_fact("unobserved_device", name);
    }
    return false;
}

bool is_collecting() noexcept {
    const ProcessState* state = process_state;
    return state != nullptr && state->collecting.load(std::memory_order_relaxed) != 0;
}

bool is_selected(EventSelection selection) noexcept {
    const ProcessState* state = process_state;
    return state != nullptr && (state->collecting.load(std::memory_order_relaxed) & selection) != 0;
}

void start_collecting(const RecordingScope& scope) noexcept {
    ProcessState& state = *process_state;
    if (state.failed.load(std::memory_order_relaxed)) {
        return;
    }
    collecting_across_fork.store(current_settings.events, std::memory_order_relaxed);
    state.collecting.store(current_settings.events, std::memory_order_release);
    if ((current_settings.events & kSelectAlloc) == 0) {
        return;
    }
    // Whoever follows a block from here on sees that events are collected, or the block is found below.
    __sync_synchronize();
    state.live_blocks.claim_unrecorded(
        [&state](const LiveBlock& block) noexcept {
            // Followed before anybody said which devices are wanted.
            const bool is_wanted = current_settings.observes(block.device);
            return is_wanted ? state.sequence.fetch_add(1, std::memory_order_relaxed) : std::uint64_t{0};
        },
        [&](const LiveBlock& block) noexcept { write_existing(scope, state, block); });
}

void stop_collecting(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    collecting_across_fork.store(0, std::memory_order_relaxed);
    process_state->collecting.store(0, std::memory_order_release);
}

std::uint64_t append(const RecordingScope& scope, const Event& event) noexcept {
    static_cast<void>(scope);
    return append_here(*process_state, event);
}

std::uint64_t append_with_stacks(const RecordingScope& scope, Event event, const CallSite& site) noexcept {
    event.python_stack_id = take_python_stack(scope, kDepthOnRequest);
    event.native_stack_id = take_native_stack(scope, kDepthOnRequest, site);
    // A dump has rows of its own behind an OOM, which need numbers of theirs.
    const std::uint64_t rows_behind = event.kind == format::EventKind::kOom ? 2 * event.extra : 0;
    return append_here(*process_state, event, 1 + rows_behind);
}

void observe_allocation(format::Pool pool, std::int8_t device, std::uint64_t address, std::uint64_t size_bytes,
                        const CallSite& site, std::uint32_t attributes) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    ProcessState& state = *process_state;
    if (state.failed.load(std::memory_order_relaxed)) {
        count_lost_event(state);
        return;
    }
    LiveBlock block{address, size_bytes, 0, pool, device, attributes, thread_handle.labels};
    if (is_selected(kSelectAlloc)) {
        Event event{format::EventKind::kMalloc};
        event.pool = pool;
        event.device = device;
        event.flags = backward_flag();
        event.address = address;
        event.size = static_cast<std::int64_t>(size_bytes);
        event.name_id = thread_handle.operator_id;
        event.attribute_id = texts::string_id(scope, attributes);
        event.extra = texts::string_id(scope, thread_handle.labels);
        take_stacks(scope, event, site, current_settings.python_stack_depth != 0);
        block.sequence = append_here(state, event);
    }
    if (!state.live_blocks.insert(block)) {
        count(state.dropped.untracked_blocks, &format::ProcessHeader::untracked_blocks);
    } else if (block.sequence == 0) {
        record_if_collection_began(scope, state, block);
    }
    if (__builtin_expect(watch::is_active(), 0)) {
        watch::block_begins(block);
    }
}

namespace {

// site: null if nobody told of the end of the block.
__attribute__((always_inline)) inline void end_block(format::Pool pool, std::uint64_t address,
                                                     const CallSite* site) noexcept {
    const RecordingScope scope(false);
    LiveBlock block{};
    if (process_state == nullptr || !process_state->live_blocks.remove(pool, address, block)) {
        return;  // not a block of this pool, or older than our observation
    }
    if (__builtin_expect(watch::is_active(), 0)) {
        watch::block_ends(block);  // memory that is being read must stay until that is done
    }
    if (block.sequence == 0) {
        return;  // never recorded
    }
    ProcessState& state = *process_state;
    if (!scope) {
        count(state.dropped.reentrant, &format::ProcessHeader::dropped_reentrant);
        return;
    }
    if (state.failed.load(std::memory_order_relaxed)) {
        count_lost_event(state);
        return;
    }
    Event event{format::EventKind::kFree};
    event.pool = pool;
    event.device = block.device;
    event.address = address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.extra = block.sequence;
    if (site == nullptr) {
        event.flags = format::kFlagShadow;
    } else {
        event.flags = backward_flag();
        event.name_id = thread_handle.operator_id;
        if (is_selected(kSelectFree)) {
            take_stacks(scope, event, *site, current_settings.write_python_stack);
        } else {
            event.flags |= format::kFlagShadow;
        }
    }
    append_here(state, event);
}

}  // namespace

void observe_free(format::Pool pool, std::uint64_t address, const CallSite& site) noexcept {
    end_block(pool, address, &site);
}

void observe_missed_free(format::Pool pool, std::uint64_t address) noexcept { end_block(pool, address, nullptr); }

namespace {

bool find_block_of_any_pool(std::uint64_t address, LiveBlock& block) noexcept {
    using format::Pool;
    // The innermost pool first: the driver knows the beginnings of the blocks that pools are cut from.
    constexpr Pool kOrder[] = {Pool::kPta, Pool::kHost, Pool::kPtaWorkspace, Pool::kMindSpore, Pool::kAtb, Pool::kHal};
    for (const Pool pool : kOrder) {
        if (process_state->live_blocks.find(pool, address, block)) {
            return true;
        }
    }
    return process_state->live_blocks.find_around(address, block);
}

}  // namespace

bool label_block(std::uint64_t address, std::uint32_t labels) noexcept {
    const RecordingScope scope(false);
    LiveBlock block{};
    if (!scope || labels == 0 || !find_block_of_any_pool(address, block)) {
        return false;
    }
    ProcessState& state = *process_state;
    if (block.labels == labels) {
        return true;
    }
    if (block.sequence == 0) {
        state.live_blocks.set_labels(block, texts::joined(block.labels, labels));
        return true;
    }
    state.live_blocks.set_labels(block, labels);
    Event event{format::EventKind::kOwner};
    event.pool = block.pool;
    event.device = block.device;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.attribute_id = texts::string_id(scope, labels);
    event.extra = block.sequence;
    append_here(state, event);
    return true;
}

std::uint64_t live_bytes(format::Pool pool, std::int8_t device) noexcept {
    return process_state == nullptr ? 0 : process_state->live_blocks.live_bytes(pool, device);
}

bool find_block_around(std::uint64_t address, LiveBlock& block) noexcept {
    return process_state != nullptr && find_block_of_any_pool(address, block);
}

void visit_live_blocks(void (*visit)(void* context, const LiveBlock& block), void* context) noexcept {
    if (process_state != nullptr) {
        process_state->live_blocks.for_each([&](const LiveBlock& block) noexcept { visit(context, block); });
    }
}

bool find_live_block(format::Pool pool, std::uint64_t address, LiveBlock& block) noexcept {
    return process_state != nullptr && process_state->live_blocks.find(pool, address, block);
}

std::uint64_t live_block_sequence(format::Pool pool, std::uint64_t address) noexcept {
    LiveBlock block{};
    return process_state->live_blocks.find(pool, address, block) ? block.sequence : 0;
}

void set_current_operator(std::uint32_t name_id) noexcept { thread_handle.operator_id = name_id; }
std::uint32_t current_operator() noexcept { return thread_handle.operator_id; }
void set_backward(bool runs) noexcept { thread_handle.flags = runs ? std::uint32_t{format::kFlagBackward} : 0U; }
std::uint8_t backward_flag() noexcept { return static_cast<std::uint8_t>(thread_handle.flags); }
void set_thread_labels(std::uint32_t labels) noexcept { thread_handle.labels = labels; }

std::uint64_t epoch() noexcept {
    return process_state == nullptr ? 0 : process_state->epoch.load(std::memory_order_acquire);
}

std::uint64_t next_sequence() noexcept {
    return process_state == nullptr ? 0 : process_state->sequence.load(std::memory_order_relaxed);
}

const char* capture_directory() noexcept {
    ProcessState* const state = process_state;
    if (state == nullptr || state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        return "";
    }
    return state->event_log_directory;
}

std::uint64_t tool_memory_bytes() noexcept {
    const ProcessState& state = *process_state;
    return sizeof(ProcessState) + state.thread_count * sizeof(ThreadState) + state.live_blocks.memory_bytes() +
           state.strings.memory_bytes() + state.codes.memory_bytes() + state.python_stacks.memory_bytes() +
           state.native_stacks.memory_bytes() + state.mapped_log_bytes;
}

void set_python_version(std::uint32_t version_hex) noexcept {
    known_python_version.store(version_hex, std::memory_order_relaxed);
    ProcessState* const state = process_state;
    if (state != nullptr && state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        state->header->python_version_hex = version_hex;
    }
}

void close() noexcept {
    watch::finish();
    ProcessState* const state = process_state;
    if (state == nullptr || state->epoch.load(std::memory_order_acquire) == 0) {
        return;
    }
    steps::note_extent();
    if (state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        report_facts();
        return;
    }
    say_losses(*state);
    state->header->log_bytes = state->log_bytes;
    state->header->tool_memory_bytes = tool_memory_bytes();
    state->header->end_ns = now_ns();
    if (state->header->state == format::CaptureState::kOpen) {
        state->header->state = format::CaptureState::kClosed;
    }
}

}  // namespace recorder
}  // namespace msmemscope
