#include "core/writer/recorder.h"

#include <cinttypes>
#include <cstdio>

#include "core/writer/append.h"
#include "core/writer/device_support.h"
#include "core/writer/process_state.h"
#include "core/writer/steps.h"
#include "core/writer/texts.h"

namespace msmemscope {

Settings current_settings;

namespace {

std::atomic<std::uint32_t> known_python_version{0};

}  // namespace

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

bool observes(format::Device device) noexcept {
    if (settings().observes(device)) {
        return true;
    }
    static std::atomic<std::uint64_t> noted[format::kDeviceKinds * format::kDevicesPerKind / 64];
    const auto number = static_cast<unsigned>(device);
    const std::uint64_t bit = std::uint64_t{1} << number % 64U;
    if (device >= 0 && (noted[number / 64U].load(std::memory_order_relaxed) & bit) == 0 &&
        (noted[number / 64U].fetch_or(bit, std::memory_order_relaxed) & bit) == 0) {
        char name[16];
        std::snprintf(name, sizeof(name), "%s:%d", format::kDeviceKindWords[device / format::kDevicesPerKind],
                      format::index_of(device));
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
    for (std::size_t number = 0; number < kDeviceSupports.count; ++number) {
        kDeviceSupports.supports[number]->record_figures(scope);  // those that were recorded last are old
    }
    // Whoever follows a block from here on sees that events are collected, or the block is found below.
    __sync_synchronize();
    state.live_blocks.claim_unrecorded(
        [&state](const LiveBlock& block) noexcept {
            // Followed before anybody said which devices are wanted.
            const bool is_wanted = current_settings.observes(block.device);
            return is_wanted ? take_numbers(state, 1) : std::uint64_t{0};
        },
        [&](const LiveBlock& block) noexcept { write_existing(scope, state, block); });
}

void stop_collecting(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    collecting_across_fork.store(0, std::memory_order_relaxed);
    process_state->collecting.store(0, std::memory_order_release);
}

void take_back(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    ProcessState& state = *process_state;
    if (state.phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        return;  // there is nothing
    }
    state.live_blocks.forget_sequences();
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr) {
        return;
    }
    // Into this log alone: a forked child begins its own.
    char line[64];
    const int length = std::snprintf(line, sizeof(line), "events.from=%" PRIu64, next_sequence());
    append_definition(state, *thread, format::DefinitionKind::kFact, 0, line, static_cast<std::size_t>(length), nullptr,
                      0, false);
}

std::uint64_t append(const RecordingScope& scope, const Event& event) noexcept {
    static_cast<void>(scope);
    return append_here(*process_state, event);
}

void append_call(const FunctionCall& call, bool always) noexcept {
    if (!always && !is_selected(kSelectTraceback)) {
        return;
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Event event{format::EventKind::kFunctionCall};
    event.name_id = call.name_id;
    event.attribute_id = call.code_id;
    event.extra = call.end_ns;
    event.timestamp_ns = call.start_ns;
    if (call.start_ns == 0) {
        event.flags |= format::kFlagStartUnknown;
        event.timestamp_ns = call.end_ns;  // or now, if that is not known either
    }
    if (call.end_ns == 0) {
        event.flags |= format::kFlagEndUnknown;
    }
    append_here(*process_state, event);
}

std::uint64_t now_ns() noexcept { return clock_ns(); }

std::uint64_t reserve_numbers(const RecordingScope& scope, std::uint64_t count) noexcept {
    static_cast<void>(scope);
    return take_numbers(*process_state, count);
}

void append_reserved(const RecordingScope& scope, const Event& event, std::uint64_t sequence) noexcept {
    static_cast<void>(scope);
    write_numbered(*process_state, event, sequence);
}

std::uint64_t live_bytes(format::Pool pool, format::Device device) noexcept {
    return process_state == nullptr ? 0 : process_state->live_blocks.live_bytes(pool, device);
}

bool find_block_around(std::uint64_t address, LiveBlock& block) noexcept {
    if (process_state == nullptr) {
        return false;
    }
    using format::Pool;
    // The innermost pool first: the driver knows the beginnings of the blocks that pools are cut from.
    constexpr Pool kOrder[] = {Pool::kPta,       Pool::kCuda, Pool::kHost, Pool::kPtaWorkspace,
                               Pool::kMindSpore, Pool::kAtb,  Pool::kHal};
    for (const Pool pool : kOrder) {
        if (process_state->live_blocks.find(pool, address, block)) {
            return true;
        }
    }
    return process_state->live_blocks.find_around(address, block);
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
void set_pass(Pass pass) noexcept {
    const std::uint32_t backward = pass == Pass::kForward ? 0U : std::uint32_t{format::kFlagBackward};
    thread_handle.flags = pass == Pass::kRecomputation ? backward | format::kFlagRecomputed : backward;
}
std::uint8_t pass_flags() noexcept { return static_cast<std::uint8_t>(thread_handle.flags); }
void set_thread_collects(bool collects) noexcept { thread_handle.collects = collects; }
void set_thread_labels(std::uint32_t labels) noexcept { thread_handle.labels = labels; }

std::uint64_t epoch() noexcept {
    return process_state == nullptr ? 0 : process_state->epoch.load(std::memory_order_acquire);
}

const std::atomic<std::uint64_t>* epoch_place() noexcept {
    return process_state == nullptr ? nullptr : &process_state->epoch;
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
           state.host_samples.memory_bytes() + state.strings.memory_bytes() + state.attributes.memory_bytes() +
           state.codes.memory_bytes() + state.python_stacks.memory_bytes() + state.native_stacks.memory_bytes() +
           state.mapped_log_bytes;
}

void set_python_version(std::uint32_t version_hex) noexcept {
    known_python_version.store(version_hex, std::memory_order_relaxed);
    ProcessState* const state = process_state;
    if (state != nullptr && state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        state->header->python_version_hex = version_hex;
    }
}

void close() noexcept {
    ProcessState* const state = process_state;
    if (state == nullptr || state->epoch.load(std::memory_order_acquire) == 0) {
        return;
    }
    steps::note_extent();
    if (state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        report_facts();
        return;
    }
    report_losses(*state);
    {
        const BoundedLockGuard guard(state->growth_lock);
        for (ThreadState* thread = guard ? state->made_threads : nullptr; thread != nullptr;
             thread = thread->next_made) {
            if (thread->events_created) {
                thread->events.seal();
            }
        }
    }
    state->header->log_bytes = state->log_bytes;
    state->header->tool_memory_bytes = tool_memory_bytes();
    state->header->end_ns = now_ns();
    if (state->header->state == format::CaptureState::kOpen) {
        state->header->state = format::CaptureState::kClosed;
    }
}

}  // namespace recorder
}  // namespace msmemscope
