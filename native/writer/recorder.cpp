#include "writer/recorder.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "stacks/native_stack.h"
#include "stacks/python_stack.h"
#include "writer/hash.h"
#include "writer/process_state.h"
#include "writer/wiped_memory.h"

namespace msmemscope {
namespace {

// Largest payload of a definition; a line table beyond it is cut.
constexpr std::size_t kLargestPayload = 256UL * 1024UL;

struct ThreadHandle {
    ThreadState* state;
    std::uint64_t epoch;
    std::uint32_t thread_id;
    std::uint32_t depth;
    std::uint32_t operator_id;
};

// initial-exec: no allocation and no lock on first use in a thread, also when loaded late.
__attribute__((tls_model("initial-exec"))) thread_local ThreadHandle handle;

// What must survive a fork, unlike ProcessState.
ProcessState* state_memory = nullptr;
Settings current_settings;
std::atomic<std::uint64_t> last_epoch{0};
std::atomic<std::uint32_t> collecting_across_fork{0};
std::atomic<std::uint32_t> known_python_version{0};
pthread_key_t thread_end_key;
char facts[32768];
std::atomic<std::size_t> facts_bytes{0};

std::uint64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000000000ULL + static_cast<std::uint64_t>(now.tv_nsec);
}

void count(std::atomic<std::uint64_t>& counter, std::uint64_t format::ProcessHeader::*mirror) noexcept {
    const std::uint64_t value = counter.fetch_add(1, std::memory_order_relaxed) + 1;
    ProcessState& state = *state_memory;
    if (state.phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        __atomic_store_n(&(state.header->*mirror), value, __ATOMIC_RELAXED);
    }
}

void update_sizes(ProcessState& state) noexcept {
    if (state.header != nullptr) {
        state.header->log_bytes = state.log_bytes;
        state.header->tool_memory_bytes = recorder::tool_memory_bytes();
    }
}

// Gives a thread's segments to whoever comes next. Runs when the thread ends; an event after that
// (other destructors allocate too) takes a state again, and this runs again.
void release_thread(void* memory) noexcept {
    auto* thread = static_cast<ThreadState*>(memory);
    ProcessState* state = state_memory;
    if (state == nullptr || handle.state != thread || handle.epoch != state->epoch.load(std::memory_order_acquire)) {
        return;
    }
    ++handle.depth;
    const BoundedLockGuard guard(state->growth_lock);
    handle.state = nullptr;
    if (guard) {
        thread->next_free = state->free_threads;
        state->free_threads = thread;
    }
    --handle.depth;
}

bool initialise_state(ProcessState& state) noexcept {
    if (!state.strings.create() || !state.codes.create() || !state.python_stacks.create() ||
        !state.native_stacks.create()) {
        return false;
    }
    state.sequence.store(1, std::memory_order_relaxed);
    state.collecting.store(collecting_across_fork.load(std::memory_order_relaxed), std::memory_order_relaxed);
    state.epoch.store(last_epoch.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
}

// First event in a forked child: the state reads as zeros.
bool initialise_after_fork(ProcessState& state) noexcept {
    const BoundedLockGuard guard(state.growth_lock);
    if (!guard) {
        return false;
    }
    return state.epoch.load(std::memory_order_acquire) != 0 || initialise_state(state);
}

void wipe_in_child() noexcept {
    std::memset(static_cast<void*>(state_memory), 0, sizeof(ProcessState));
}

ThreadState* acquire_thread(ProcessState& state) noexcept {
    const BoundedLockGuard guard(state.growth_lock);
    if (!guard) {
        return nullptr;
    }
    ThreadState* thread = state.free_threads;
    if (thread != nullptr) {
        state.free_threads = thread->next_free;
    } else {
        thread = static_cast<ThreadState*>(map_wiped_memory(sizeof(ThreadState)));
        if (thread == nullptr) {
            return nullptr;
        }
        thread->number = state.thread_count++;
    }
    return thread;
}

ThreadState* this_thread(ProcessState& state) noexcept {
    const std::uint64_t epoch = state.epoch.load(std::memory_order_acquire);
    if (handle.state != nullptr && handle.epoch == epoch) {
        return handle.state;
    }
    handle.state = acquire_thread(state);
    handle.epoch = epoch;
    handle.thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
    if (handle.state != nullptr) {
        pthread_setspecific(thread_end_key, handle.state);
    }
    return handle.state;
}

const char* describe_error(int error) noexcept {
    switch (error) {
        case ENOSPC:
            return "no space left on the device";
        case EDQUOT:
            return "disk quota exceeded";
        case EFBIG:
            return "file size limit reached";
        case EACCES:
        case EPERM:
            return "permission denied";
        case ENOENT:
            return "the folder is gone";
        case EROFS:
            return "read-only file system";
        case ENOMEM:
            return "not enough memory or address space";
        case EMFILE:
        case ENFILE:
            return "too many open files";
        case ENAMETOOLONG:
            return "path too long";
        case ELOOP:
            return "a symbolic link stands in the way";
        case ENOTDIR:
        case EEXIST:
            return "a file stands in the way";
        default:
            return nullptr;
    }
}

bool ensure_capture(ProcessState& state, ThreadState& thread) noexcept {
    if (state.failed.load(std::memory_order_relaxed)) {
        return false;
    }
    return state.phase.load(std::memory_order_acquire) == CapturePhase::kOpen || open_capture(state, thread);
}

// Maps the next chunk of one of the thread's segments. Called with the growth lock held.
bool grow(ProcessState& state, SegmentFile& segment, bool& created, SegmentFamily family, std::uint32_t number,
          std::size_t minimum_bytes) noexcept {
    const std::uint64_t file_bytes_before = created ? segment.file_bytes() : 0;
    const std::size_t mapped_before = created ? segment.mapped_bytes() : 0;
    int error = created ? 0 : segment.create(state.event_log_directory, family, number);
    if (error == 0) {
        created = true;
        const Chunk full = segment.current_chunk();
        const bool had_chunk = segment.has_chunk();
        error = family == SegmentFamily::kEvents ? make_room(state, minimum_bytes) : 0;
        if (error == 0) {
            error = segment.advance(state.event_log_directory, minimum_bytes, largest_chunk_bytes());
        }
        if (error == 0 && had_chunk && family == SegmentFamily::kEvents) {
            note_full_chunk(state, full);
        }
    }
    if (error != 0) {
        fail(state, error, "growing the event log");
        return false;
    }
    state.log_bytes += segment.file_bytes() - file_bytes_before;
    state.mapped_log_bytes += segment.mapped_bytes() - mapped_before;
    update_sizes(state);
    return true;
}

bool grow_events(ProcessState& state, ThreadState& thread) noexcept {
    const BoundedLockGuard guard(state.growth_lock);
    return guard && ensure_capture(state, thread) &&
           grow(state, thread.events, thread.events_created, SegmentFamily::kEvents, thread.number,
                sizeof(format::Record));
}

void write_record(format::Record& record, const Event& event, std::uint64_t sequence) noexcept {
    record.timestamp_ns = event.timestamp_ns != 0 ? event.timestamp_ns : now_ns();
    record.address = event.address;
    record.size = event.size;
    record.thread_id = handle.thread_id;
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

// Defines content that was interned for the first time; returns its id.
std::uint32_t define(InternTable& table, std::uint64_t hash, format::DefinitionKind kind, const void* first,
                     std::size_t first_bytes, const void* second, std::size_t second_bytes) noexcept {
    ProcessState& state = *state_memory;
    const InternTable::Result result = table.intern(hash);
    if (result.added) {
        ThreadState* thread = this_thread(state);
        if (thread == nullptr ||
            !append_definition(state, *thread, kind, result.id, first, first_bytes, second, second_bytes, false)) {
            count(state.dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
        }
    } else if (result.id == 0) {
        count(state.dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
    }
    return result.id;
}

}  // namespace

ProcessState* process_state() noexcept { return state_memory; }
const char* pending_facts() noexcept { return facts; }
std::uint32_t python_version_hex() noexcept { return known_python_version.load(std::memory_order_relaxed); }

void fail(ProcessState& state, int error, const char* action) noexcept {
    if (state.failed.exchange(true, std::memory_order_acq_rel)) {
        return;
    }
    state.collecting.store(0, std::memory_order_release);
    if (state.header != nullptr) {
        state.header->failure_errno = static_cast<std::uint32_t>(error);
        state.header->state = format::CaptureState::kFailed;
    }
    char line[512];
    const char* description = describe_error(error);
    char number[32];
    if (description == nullptr) {
        std::snprintf(number, sizeof(number), "error %d", error);
        description = number;
    }
    const int length = std::snprintf(line, sizeof(line),
                                     "msmemscope: recording stopped: %s: %s (process %d; the program goes on)\n", action,
                                     description, static_cast<int>(getpid()));
    if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) {
        errno = 0;  // no stderr: nowhere left to say it
    }
}

bool append_definition(ProcessState& state, ThreadState& thread, format::DefinitionKind kind, std::uint32_t id,
                       const void* first, std::size_t first_bytes, const void* second, std::size_t second_bytes,
                       bool locked) noexcept {
    second_bytes = std::min(second_bytes, kLargestPayload);
    const std::size_t payload = first_bytes + second_bytes;
    const std::size_t entry = (sizeof(format::DefinitionHeader) + payload + 7) & ~std::size_t{7};
    if (static_cast<std::size_t>(thread.definitions.end - thread.definitions.cursor) < entry) {
        const auto more = [&]() noexcept {
            return ensure_capture(state, thread) &&
                   // Opening the capture may itself have defined things and mapped a chunk.
                   (static_cast<std::size_t>(thread.definitions.end - thread.definitions.cursor) >= entry ||
                    grow(state, thread.definitions, thread.definitions_created, SegmentFamily::kDefinitions,
                         thread.number, entry));
        };
        if (locked) {
            if (!more()) {
                return false;
            }
        } else {
            const BoundedLockGuard guard(state.growth_lock);
            if (!guard || !more()) {
                return false;
            }
        }
    }
    unsigned char* const place = thread.definitions.cursor;
    auto* const header = reinterpret_cast<format::DefinitionHeader*>(place);
    header->kind = kind;
    header->reserved = 0;
    header->id = id;
    header->payload_bytes = static_cast<std::uint32_t>(payload);
    std::memcpy(place + sizeof(*header), first, first_bytes);
    if (second_bytes > 0) {
        std::memcpy(place + sizeof(*header) + first_bytes, second, second_bytes);
    }
    __atomic_store_n(&header->commit, format::kDefinitionCommit, __ATOMIC_RELEASE);
    thread.definitions.cursor = place + entry;
    return true;
}

RecordingScope::RecordingScope(bool count_drop) noexcept : entered_(false), saved_errno_(errno) {
    ProcessState* const state = state_memory;
    if (state == nullptr) {
        return;
    }
    if (handle.depth != 0) {
        if (count_drop) {
            count(state->dropped.reentrant, &format::ProcessHeader::dropped_reentrant);
        }
        return;
    }
    handle.depth = 1;
    // Handlers of signals that arrive from here on see the mark.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (state->epoch.load(std::memory_order_acquire) == 0 && !initialise_after_fork(*state)) {
        handle.depth = 0;
        return;
    }
    entered_ = true;
}

RecordingScope::~RecordingScope() {
    if (entered_) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        handle.depth = 0;
    }
    errno = saved_errno_;
}

namespace recorder {

bool configure(const char* settings_text) noexcept {
    if (!current_settings.parse(settings_text)) {
        return false;
    }
    if (state_memory == nullptr) {
        auto* memory = static_cast<ProcessState*>(map_wiped_memory(sizeof(ProcessState)));
        if (memory == nullptr || pthread_key_create(&thread_end_key, release_thread) != 0) {
            return false;
        }
        if (!kernel_wipes_on_fork() && pthread_atfork(nullptr, nullptr, wipe_in_child) != 0) {
            return false;
        }
        if (!initialise_state(*memory)) {
            return false;
        }
        state_memory = memory;
    }
    if (current_settings.collect_immediately && current_settings.first_step_selected) {
        collecting_across_fork.store(current_settings.events, std::memory_order_relaxed);
        state_memory->collecting.store(current_settings.events, std::memory_order_release);
    }
    return true;
}

bool is_configured() noexcept { return state_memory != nullptr; }
const Settings& settings() noexcept { return current_settings; }

bool is_collecting() noexcept {
    const ProcessState* state = state_memory;
    return state != nullptr && state->collecting.load(std::memory_order_relaxed) != 0;
}

bool is_selected(EventSelection selection) noexcept {
    const ProcessState* state = state_memory;
    return state != nullptr && (state->collecting.load(std::memory_order_relaxed) & selection) != 0;
}

void start_collecting(const RecordingScope& scope) noexcept {
    ProcessState& state = *state_memory;
    if (state.failed.load(std::memory_order_relaxed)) {
        return;
    }
    collecting_across_fork.store(current_settings.events, std::memory_order_relaxed);
    state.collecting.store(current_settings.events, std::memory_order_release);
    if ((current_settings.events & kSelectAlloc) == 0) {
        return;
    }
    state.live_blocks.claim_unrecorded(
        [&state](const LiveBlock&) noexcept { return state.sequence.fetch_add(1, std::memory_order_relaxed); },
        [&](const LiveBlock& block) noexcept {
            ThreadState* thread = this_thread(state);
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
            write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, block.sequence);
            thread->events.cursor += sizeof(format::Record);
        });
    static_cast<void>(scope);
}

void stop_collecting(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    collecting_across_fork.store(0, std::memory_order_relaxed);
    state_memory->collecting.store(0, std::memory_order_release);
}

std::uint64_t append(const RecordingScope& scope, const Event& event) noexcept {
    static_cast<void>(scope);
    ProcessState& state = *state_memory;
    ThreadState* const thread = this_thread(state);
    if (thread == nullptr || state.failed.load(std::memory_order_relaxed) ||
        (thread->events.cursor == thread->events.end && !grow_events(state, *thread))) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
        return 0;
    }
    // Fresh pages are not in the cache; a prefetch past the end of the chunk does no harm.
    __builtin_prefetch(thread->events.cursor + 4 * sizeof(format::Record), 1);
    const std::uint64_t sequence = state.sequence.fetch_add(1, std::memory_order_relaxed);
    write_record(*reinterpret_cast<format::Record*>(thread->events.cursor), event, sequence);
    thread->events.cursor += sizeof(format::Record);
    return sequence;
}

void block_allocated(const RecordingScope& scope, format::Pool pool, std::int8_t device, std::uint64_t address,
                     std::uint64_t size_bytes, const void* caller) noexcept {
    ProcessState& state = *state_memory;
    LiveBlock block{address, size_bytes, 0, pool, device};
    if (is_selected(kSelectAlloc)) {
        Event event{format::EventKind::kMalloc};
        event.pool = pool;
        event.device = device;
        event.address = address;
        event.size = static_cast<std::int64_t>(size_bytes);
        event.name_id = handle.operator_id;
        event.python_stack_id = take_python_stack(scope, current_settings.python_stack_depth);
        event.native_stack_id = take_native_stack(scope, current_settings.native_stack_depth, caller);
        block.sequence = append(scope, event);
    }
    if (!state.live_blocks.insert(block)) {
        count(state.dropped.untracked_blocks, &format::ProcessHeader::untracked_blocks);
    }
}

void block_freed(const RecordingScope& scope, format::Pool pool, std::uint64_t address, const void* caller) noexcept {
    ProcessState& state = *state_memory;
    LiveBlock block{};
    if (!state.live_blocks.remove(pool, address, block)) {
        return;  // not a block of this pool, or older than our observation
    }
    const bool collecting = is_selected(kSelectFree);
    if (block.sequence == 0 || state.failed.load(std::memory_order_relaxed)) {
        return;  // its MALLOC was never recorded
    }
    Event event{format::EventKind::kFree};
    event.pool = pool;
    event.device = block.device;
    event.flags = collecting ? 0 : format::kFlagShadow;
    event.address = address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.name_id = handle.operator_id;
    event.extra = block.sequence;
    if (collecting) {
        if (current_settings.write_python_stack) {
            event.python_stack_id = take_python_stack(scope, current_settings.python_stack_depth);
        }
        event.native_stack_id = take_native_stack(scope, current_settings.native_stack_depth, caller);
    }
    append(scope, event);
}

void block_freed_unseen(format::Pool pool, std::uint64_t address) noexcept {
    LiveBlock block{};
    if (state_memory != nullptr && state_memory->live_blocks.remove(pool, address, block) && block.sequence != 0) {
        count(state_memory->dropped.reentrant, &format::ProcessHeader::dropped_reentrant);
    }
}

std::uint64_t live_block_sequence(format::Pool pool, std::uint64_t address) noexcept {
    LiveBlock block{};
    return state_memory->live_blocks.find(pool, address, block) ? block.sequence : 0;
}

std::uint32_t intern_string(const RecordingScope& scope, const char* text, std::size_t bytes) noexcept {
    static_cast<void>(scope);
    return define(state_memory->strings, hash_bytes(text, bytes, 1), format::DefinitionKind::kString, text, bytes,
                  nullptr, 0);
}

std::uint32_t intern_code(const RecordingScope& scope, const format::CodePayload& code,
                          const void* line_table) noexcept {
    static_cast<void>(scope);
    const std::uint64_t hash = hash_bytes(line_table, code.line_table_bytes, hash_bytes(&code, sizeof(code), 2));
    return define(state_memory->codes, hash, format::DefinitionKind::kCode, &code, sizeof(code), line_table,
                  code.line_table_bytes);
}

std::uint32_t intern_python_stack(const RecordingScope& scope, const format::PythonFrame* frames,
                                  std::size_t frame_count) noexcept {
    static_cast<void>(scope);
    const std::size_t bytes = frame_count * sizeof(*frames);
    return define(state_memory->python_stacks, hash_bytes(frames, bytes, 3), format::DefinitionKind::kPythonStack,
                  frames, bytes, nullptr, 0);
}

std::uint32_t intern_native_stack(const RecordingScope& scope, const std::uint64_t* frames,
                                  std::size_t frame_count) noexcept {
    static_cast<void>(scope);
    const std::size_t bytes = frame_count * sizeof(*frames);
    return define(state_memory->native_stacks, hash_bytes(frames, bytes, 4), format::DefinitionKind::kNativeStack,
                  frames, bytes, nullptr, 0);
}

std::uint64_t* stack_scratch(const RecordingScope& scope) noexcept {
    static_cast<void>(scope);
    ThreadState* const thread = this_thread(*state_memory);
    return thread == nullptr ? nullptr : thread->stack_scratch;
}

void define_module(const RecordingScope& scope, const format::ModulePayload& module, const void* build_id,
                   const char* module_path) noexcept {
    static_cast<void>(scope);
    // Build id and path in one piece: definitions take two parts.
    char tail[4096 + 64];
    const std::size_t id_bytes = std::min<std::size_t>(module.build_id_bytes, 64);
    const std::size_t path_bytes = std::min<std::size_t>(std::strlen(module_path), 4096);
    std::memcpy(tail, build_id, id_bytes);
    std::memcpy(tail + id_bytes, module_path, path_bytes);
    format::ModulePayload payload = module;
    payload.build_id_bytes = static_cast<std::uint32_t>(id_bytes);
    payload.path_bytes = static_cast<std::uint32_t>(path_bytes);
    ThreadState* const thread = this_thread(*state_memory);
    if (thread == nullptr || !append_definition(*state_memory, *thread, format::DefinitionKind::kModule, 0, &payload,
                                                sizeof(payload), tail, id_bytes + path_bytes, false)) {
        count(state_memory->dropped.lost_definitions, &format::ProcessHeader::lost_definitions);
    }
}

void note_fact(const char* key, const char* value) noexcept {
    const RecordingScope scope(false);
    ProcessState* const state = state_memory;
    char line[4400];
    const int length = std::snprintf(line, sizeof(line), "%s=%s\n", key, value);
    if (length <= 0 || static_cast<std::size_t>(length) >= sizeof(line)) {
        return;
    }
    const auto bytes = static_cast<std::size_t>(length);
    const std::size_t place = facts_bytes.fetch_add(bytes, std::memory_order_acq_rel);
    if (place + bytes < sizeof(facts)) {
        std::memcpy(facts + place, line, bytes);
    } else {
        facts_bytes.fetch_sub(bytes, std::memory_order_acq_rel);
    }
    if (scope && state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        ThreadState* const thread = this_thread(*state);
        if (thread != nullptr) {
            append_definition(*state, *thread, format::DefinitionKind::kFact, 0, line, bytes - 1, nullptr, 0, false);
        }
    }
}

void say(const char* text) noexcept {
    char line[1024];
    const int length = std::snprintf(line, sizeof(line), "msmemscope: %s\n", text);
    if (length > 0) {
        const std::size_t bytes = std::min(static_cast<std::size_t>(length), sizeof(line) - 1);
        if (write(STDERR_FILENO, line, bytes) < 0) {
            errno = 0;  // no stderr: the fact below still tells
        }
    }
    note_fact("message", text);
}

void set_current_operator(std::uint32_t name_id) noexcept { handle.operator_id = name_id; }
std::uint32_t current_operator() noexcept { return handle.operator_id; }

std::uint64_t epoch() noexcept {
    return state_memory == nullptr ? 0 : state_memory->epoch.load(std::memory_order_acquire);
}

std::uint64_t next_sequence() noexcept {
    return state_memory == nullptr ? 0 : state_memory->sequence.load(std::memory_order_relaxed);
}

const char* capture_directory() noexcept {
    ProcessState* const state = state_memory;
    if (state == nullptr || state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        return "";
    }
    return state->event_log_directory;
}

std::uint64_t tool_memory_bytes() noexcept {
    const ProcessState& state = *state_memory;
    return sizeof(ProcessState) + state.thread_count * sizeof(ThreadState) + state.live_blocks.memory_bytes() +
           state.strings.memory_bytes() + state.codes.memory_bytes() + state.python_stacks.memory_bytes() +
           state.native_stacks.memory_bytes() + state.mapped_log_bytes;
}

void set_python_version(std::uint32_t version_hex) noexcept {
    known_python_version.store(version_hex, std::memory_order_relaxed);
    ProcessState* const state = state_memory;
    if (state != nullptr && state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen) {
        state->header->python_version_hex = version_hex;
    }
}

void close() noexcept {
    ProcessState* const state = state_memory;
    if (state == nullptr || state->epoch.load(std::memory_order_acquire) == 0 ||
        state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        return;
    }
    update_sizes(*state);
    state->header->end_ns = now_ns();
    if (state->header->state == format::CaptureState::kOpen) {
        state->header->state = format::CaptureState::kClosed;
    }
}

}  // namespace recorder
}  // namespace msmemscope
