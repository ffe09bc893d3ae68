// The recorder: what observers call, and the only writer of the event log.
//
// One per process. The hot path (append) takes no lock, allocates nothing and makes
// no system call except when a chunk is full; errno stays as it was. Nothing here throws or blocks without
// bound, and whatever fails becomes one line on stderr while the program goes on.
//
// State lives in memory that fork wipes: a forked child finds everything zero, notices
// at its first event, and opens a capture of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/format/attribute.h"
#include "core/format/definition.h"
#include "core/format/record.h"
#include "core/writer/live_blocks.h"
#include "core/writer/settings.h"

namespace msmemscope {

// An event as its observer knows it. The recorder adds sequence, time and thread.
struct Event {
    format::EventKind kind;
    format::Pool pool = format::Pool::kNone;
    format::Device device = format::kDeviceNone;
    std::uint8_t flags = 0;
    std::uint64_t address = 0;
    std::int64_t size = 0;
    std::uint32_t name_id = 0;
    std::uint32_t attribute_id = 0;
    std::uint32_t python_stack_id = 0;
    std::uint32_t native_stack_id = 0;
    std::uint64_t extra = 0;
    // 0: now.
    std::uint64_t timestamp_ns = 0;
};

// A call of a function that has ended, or will not be followed any further.
struct FunctionCall {
    std::uint64_t start_ns;  // 0: before it could be seen
    std::uint64_t end_ns;    // 0: it had not ended
    // One of them: what was called, or the id of its code.
    std::uint32_t name_id;
    std::uint32_t code_id;
};

// One entry of a thread's cache of stacks it has seen: a hash of whatever identifies the stack -> its id.
struct StackCacheEntry {
    std::uint64_t hash;
    std::uint32_t id;
};
inline constexpr std::size_t kStackCacheEntries = 512;

// Where an observed function was called from: the return address, and the place on the stack that holds
// it (null where that is not known).
struct CallSite {
    const void* return_address;
    const void* slot;
};

// The call site of the function that uses it.
#if defined(__x86_64__)
#define MSMEMSCOPE_CALL_SITE() \
    ::msmemscope::CallSite{__builtin_return_address(0), static_cast<const char*>(__builtin_dwarf_cfa()) - 8}
#else
#define MSMEMSCOPE_CALL_SITE() \
    ::msmemscope::CallSite { __builtin_return_address(0), nullptr }
#endif

// The part of libmsmemscope_core.so that the extension can use; everything else is hidden.
#pragma GCC visibility push(default)

// Proof that the calling thread may record. Evaluates to false inside our own code, in a signal
// handler that interrupted it, when recording has failed, and when nothing was ever configured.
// Destroying it gives the thread free again.
class RecordingScope {
public:
    // count_drop: an event is lost if the scope cannot be entered because of re-entry.
    explicit RecordingScope(bool count_drop) noexcept;
    ~RecordingScope();
    RecordingScope(const RecordingScope&) = delete;
    RecordingScope& operator=(const RecordingScope&) = delete;

    explicit operator bool() const noexcept { return entered_; }

private:
    bool entered_;
};

namespace recorder {

// Takes the settings and makes the process ready. Recording starts at once if the settings collect
// immediately. Callable again: later settings replace earlier ones, except the output directory of a
// capture that is already open. False if the text cannot be used.
bool configure(const char* settings_text) noexcept;
bool is_configured() noexcept;
const Settings& settings() noexcept;

// Whether events are collected now.
bool is_collecting() noexcept;
// Whether this kind of event was selected (alloc, free ...) and events are collected now.
bool is_selected(EventSelection selection) noexcept;

// Begins or ends collection. Beginning records every live block that has no MALLOC record as
// existing (flag shadow).
void start_collecting(const RecordingScope& scope) noexcept;
void stop_collecting(const RecordingScope& scope) noexcept;

// Nothing that was recorded so far counts, because the user did not ask for it. Call this while nothing is collected.
// When collection begins again, live blocks are recorded as existing.
void take_back(const RecordingScope& scope) noexcept;

// Writes one record. Returns its sequence number, 0 if it was dropped (and counted).
std::uint64_t append(const RecordingScope& scope, const Event& event) noexcept;

// Writes the record of a call of a function, in a scope of its own. Without `always` it does so only if such calls are
// collected.
void append_call(const FunctionCall& call, bool always) noexcept;

// The time that records carry, for several that are made at once.
std::uint64_t now_ns() noexcept;

// Sequence numbers for records of this thread that are written later, in their order and before any other of this
// thread. Returns the first one.
std::uint64_t reserve_numbers(const RecordingScope& scope, std::uint64_t count) noexcept;
void append_reserved(const RecordingScope& scope, const Event& event, std::uint64_t sequence) noexcept;

// Bytes of the live blocks of a pool on a device. Reads the whole table of live blocks.
std::uint64_t live_bytes(format::Pool pool, format::Device device) noexcept;

// The innermost live block that holds this address, whatever its pool; false if none is known. Often reads the whole
// table.
bool find_block_around(std::uint64_t address, LiveBlock& block) noexcept;

// Calls visit(context, block) for each live block.
void visit_live_blocks(void (*visit)(void* context, const LiveBlock& block), void* context) noexcept;

// The live block that starts at this address; false if none is known.
bool find_live_block(format::Pool pool, std::uint64_t address, LiveBlock& block) noexcept;

// Sequence of the MALLOC of the live block that starts at this address, 0 if none is known.
std::uint64_t live_block_sequence(format::Pool pool, std::uint64_t address) noexcept;

// Ids of content, defined in the log when first met; 0 if the table is full.
std::uint32_t intern_string(const RecordingScope& scope, const char* text, std::size_t bytes) noexcept;
std::uint32_t intern_attributes(const RecordingScope& scope, const format::Attribute* pairs,
                                std::size_t count) noexcept;
std::uint32_t intern_code(const RecordingScope& scope, const format::CodePayload& code,
                          const void* line_table) noexcept;
std::uint32_t intern_python_stack(const RecordingScope& scope, const format::PythonFrame* frames,
                                  std::size_t count) noexcept;
std::uint32_t intern_native_stack(const RecordingScope& scope, const std::uint64_t* frames, std::size_t count) noexcept;

// Room for kMaximumStackDepth 64-bit entries, the calling thread's own (its stack may be too small).
// Null if the thread cannot be served.
std::uint64_t* stack_scratch(const RecordingScope& scope) noexcept;

// The calling thread's cache of stacks, kStackCacheEntries of them; zeros in a forked child. Null as above.
StackCacheEntry* stack_cache(const RecordingScope& scope) noexcept;

// Adds a module definition. build_id_and_path: the bytes that follow the payload, as it says.
void define_module(const RecordingScope& scope, const format::ModulePayload& module,
                   const char* build_id_and_path) noexcept;

// Adds a fact ("observed.torch_cpu=/path"). Does not open a capture: before the first event, facts wait.
void note_fact(const char* key, const char* value) noexcept;

// Whether a device is observed. The first use of an accelerator that is not becomes a fact: "unobserved_device=npu:0".
bool observes(format::Device device) noexcept;

// Prints "msmemscope: <text>" on stderr and records it as a fact. A warning is not printed where the settings ask for
// errors alone.
void warn(const char* text) noexcept;
void report_error(const char* text) noexcept;

// The operator that runs on this thread; MALLOC and FREE records carry it. 0: none.
void set_current_operator(std::uint32_t name_id) noexcept;
std::uint32_t current_operator() noexcept;

// The pass of the operator that runs on this thread. Records of its memory events say so.
enum class Pass : std::uint8_t { kForward, kBackward, kRecomputation };
void set_pass(Pass pass) noexcept;
// The bits kFlagBackward and kFlagRecomputed as the records of this thread have them now.
std::uint8_t pass_flags() noexcept;

// Whether Python's garbage collector works on this thread, having begun by itself: ends of blocks say so.
void set_thread_collects(bool collects) noexcept;

// The labels in force on this thread: the number of a text, 0 for none.
void set_thread_labels(std::uint32_t labels) noexcept;

// Numbers every configuration change and fork: caches of ids are valid for one epoch only.
std::uint64_t epoch() noexcept;

// Where epoch() stands, for those who look at every call: 0 in a forked child until it enters a scope. Null before
// anything was configured.
const std::atomic<std::uint64_t>* epoch_place() noexcept;

// The next sequence number to be given.
std::uint64_t next_sequence() noexcept;

// Directory of the open capture ("" if none); the same capture's totals.
const char* capture_directory() noexcept;
std::uint64_t tool_memory_bytes() noexcept;

void set_python_version(std::uint32_t version_hex) noexcept;

// The process ends in an orderly way. Events may still follow.
void close() noexcept;

}  // namespace recorder

#pragma GCC visibility pop
}  // namespace msmemscope
