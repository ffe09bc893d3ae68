// The recorder's own state, shared by its source files and by nobody else.
//
// ProcessState and every ThreadState lie in memory that fork wipes. All-zero is their
// valid initial state; nothing here has a constructor that matters.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/format/process_header.h"
#include "core/writer/bounded_lock.h"
#include "core/writer/event_file.h"
#include "core/writer/fast_clock.h"
#include "core/writer/heap_pages.h"
#include "core/writer/intern_table.h"
#include "core/writer/live_blocks.h"
#include "core/writer/recorder.h"
#include "core/writer/segment_file.h"
#include "core/writer/thread_stacks.h"

namespace msmemscope {

// A native stack as it lay in memory: return addresses, and the places on the stack that hold them.
struct NativeChain {
    static constexpr std::uint32_t kMostFrames = 128;

    std::uint64_t hash;  // of the innermost pair; 0: empty
    std::uint32_t depth;
    std::uint32_t count;
    std::uint32_t stack_id;
    std::uint64_t return_addresses[kMostFrames];
    std::uint64_t slots[kMostFrames];
};
inline constexpr std::size_t kNativeChains = 64;

struct ThreadState {
    EventFile events;
    SegmentFile definitions;
    bool events_created;
    bool definitions_created;
    std::uint32_t number;
    ThreadState* next_free;
    ThreadState* next_made;
    std::uint64_t stack_scratch[kMaximumStackDepth];
    StackCacheEntry stack_cache[kStackCacheEntries];
    NativeChain native_chains[kNativeChains];
    Packing packing;
    // The thread's own stack, from its lowest address to the first after it; end 0 while it is not known.
    std::uint64_t stack_start;
    std::uint64_t stack_end;
};

enum class CapturePhase : std::uint32_t { kNone = 0, kOpen = 1 };

// Counters of lost events. Once the process header is there, it shows the same.
struct DropCounters {
    std::atomic<std::uint64_t> reentrant;
    std::atomic<std::uint64_t> failure;
    std::atomic<std::uint64_t> recycled;
    std::atomic<std::uint64_t> lost_definitions;
    std::atomic<std::uint64_t> untracked_blocks;
};

// Blocks of event segments, oldest first; and the records kept from recycled ones.
struct FlightRecorderState {
    static constexpr std::size_t kCapacity = 1UL << 16U;

    Chunk* blocks;  // ring of kCapacity
    std::size_t first;
    std::size_t count;
    SegmentFile kept;
    bool kept_created;
    std::uint32_t kept_number;
    std::uint64_t* freed;             // scratch, one entry per record of the largest block
    format::PackingState* unpacking;  // likewise
};

// The unit in which processors hand memory to each other: two cache lines, because the second one is prefetched.
inline constexpr std::size_t kSharedLines = 128;

inline constexpr std::size_t kHostFilterBytes = 1UL << 16U;

// Host memory as the program's own work began, in a process that had no log then. All in bytes, 0 where it is not
// known.
struct FirstFigure {
    std::atomic<std::uint64_t> timestamp_ns;  // 0: it has not begun
    std::atomic<std::uint64_t> anonymous;     // written last; 0 again when the log has it
    std::atomic<std::uint64_t> of_files;      // or shared
    std::atomic<std::uint64_t> shared;
    std::atomic<std::uint64_t> kept;
    std::atomic<std::uint64_t> unrecorded;
};

// Fields that every event of every thread reads stand apart from fields that events write. A thread that writes a cache
// line takes it from all other processors. Each of them waits to get it back.
struct ProcessState {
    // 0: this process has not initialised its state (it was just forked).
    alignas(kSharedLines) std::atomic<std::uint64_t> epoch;
    // EventSelection bits while collecting, else 0.
    std::atomic<std::uint32_t> collecting;
    std::atomic<bool> failed;
    std::atomic<CapturePhase> phase;
    LiveBlocks live_blocks;
    InternTable strings;
    InternTable attributes;
    InternTable codes;
    InternTable python_stacks;
    InternTable native_stacks;
    format::ProcessHeader* header;
    // The next sequence number: the only thing that every event writes.
    alignas(kSharedLines) std::atomic<std::uint64_t> sequence;
    alignas(kSharedLines) BoundedLock growth_lock;
    BoundedLock step_lock;
    DropCounters dropped;
    ThreadState* free_threads;
    ThreadState* made_threads;  // all of them
    std::uint32_t thread_count;
    std::uint64_t log_bytes;
    std::uint64_t mapped_log_bytes;
    std::uint64_t growth_count;
    std::atomic<bool> reported_held_log;
    std::atomic<bool> losses_are_reported;
    FlightRecorderState flight;
    char event_log_directory[4400];
    // Samples of host memory, see observe/host_samples.h: those that are alive, and how many have each hash.
    LiveBlocks host_samples;
    std::atomic<std::uint64_t> host_sample_count;
    // Estimated bytes of those that are alive and have no record, as there is no log.
    std::atomic<std::uint64_t> host_unrecorded_bytes;
    ThreadStacks thread_stacks;
    FirstFigure first_figure;
    std::atomic<std::uint64_t> host_figure_ns;  // when the last figure was written
    // When the first sample was, and when the kernel is asked again which of them are in memory. Near the limit of the
    // control group another time holds.
    std::atomic<std::uint64_t> resident_begin_ns;
    std::atomic<std::uint64_t> resident_due_ns;
    std::atomic<std::uint64_t> resident_near_limit_ns;
    HeapPages heap_pages;
    std::atomic<bool> host_samples_are_full;
    std::atomic<bool> is_forked;
    std::atomic<bool> is_near_limit;               // of its control group
    std::atomic<std::uint64_t> own_figure_ns;      // when the next figure of own memory is due
    std::atomic<std::uint64_t> container_look_ns;  // when the next look is due; 0: none is awaited
    alignas(kSharedLines) std::atomic<std::uint8_t> host_filter[kHostFilterBytes];
};

// Sequence numbers that a thread has taken for itself. All zeros: none were ever taken.
struct NumberLease {
    std::uint64_t next;
    std::uint64_t end;
    std::uint64_t begun_ns;
    std::uint64_t size;
    // Other threads had taken numbers since this one did.
    bool is_contended;
};

// The calling thread's part of the state. With initial-exec the first use in a thread takes no allocation and no lock,
// also if the library is loaded late. It is __thread, because thread_local would put a call in front of every access
// from another source file.
struct ThreadHandle {
    ThreadState* state;
    std::uint64_t epoch;
    std::uint32_t thread_id;
    std::uint32_t depth;
    std::uint32_t operator_id;
    // Of the records of this thread's memory events: kFlagBackward, kFlagRecomputed.
    std::uint32_t flags;
    // Number of the text of the labels in force, see texts.h.
    std::uint32_t labels;
    // Python's garbage collector works on it, having begun by itself.
    bool collects;
    // Python code of ours runs on it: what it allocates is no host memory of the program.
    bool runs_own_code;
    FastClock clock;
    NumberLease lease;
};
extern __attribute__((tls_model("initial-exec"))) __thread ThreadHandle thread_handle;

extern Settings current_settings;
// Null until configured.
extern ProcessState* process_state;
// The value of `collecting`, for children. Their state starts as zeros.
extern std::atomic<std::uint32_t> collecting_across_fork;

std::uint32_t python_version_hex() noexcept;

// --- thread_states.cpp -------------------------------------------------------------------------

// At the first event in a forked child, where the state reads as zeros. False if it cannot be made ready.
bool initialise_after_fork(ProcessState& state) noexcept;
// Makes process_state; false if memory for it is refused.
bool create_process_state() noexcept;
// Gives the calling thread segments; null if they cannot be had.
ThreadState* attach_thread(ProcessState& state) noexcept;

// The calling thread's segments; null if they cannot be had.
inline ThreadState* this_thread(ProcessState& state) noexcept {
    const bool attached =
        thread_handle.state != nullptr && thread_handle.epoch == state.epoch.load(std::memory_order_acquire);
    return __builtin_expect(attached, 1) ? thread_handle.state : attach_thread(state);
}

// Counts a drop, in the header too if there is one.
void count(std::atomic<std::uint64_t>& counter, std::uint64_t format::ProcessHeader::* mirror) noexcept;
// The header has just become visible: shows in it what was counted before.
void show_counted(ProcessState& state) noexcept;

// --- log_growth.cpp ----------------------------------------------------------------------------

// Recording stops for good: one line on stderr, and the reason in the header.
void fail(ProcessState& state, int error, const char* action) noexcept;
// Room for one more event record. Takes the growth lock, and not while it packs. False after a failure.
bool grow_events(ProcessState& state, ThreadState& thread) noexcept;
// Room for a definition of so many bytes. With `locked`, the caller holds the growth lock.
bool grow_definitions(ProcessState& state, ThreadState& thread, std::size_t bytes, bool locked) noexcept;
// The growth lock could not be had, so an event or a definition is lost: the first time, one line on stderr.
void report_held_log(ProcessState& state) noexcept;
// One line on stderr per reason for which events were lost, at the end of the process, once.
void report_losses(ProcessState& state) noexcept;
// Writes the log's size, and now and then the tool's memory, to the header.
void update_sizes(ProcessState& state) noexcept;

// --- definitions.cpp ---------------------------------------------------------------------------

// Lines of facts noted so far; kept across fork, since what was hooked stays hooked.
const char* pending_facts() noexcept;
// A process without a capture gives them to its launcher.
void report_facts() noexcept;
// Appends a definition. With `locked`, the caller holds the growth lock.
bool append_definition(ProcessState& state, ThreadState& thread, format::DefinitionKind kind, std::uint32_t id,
                       const void* first, std::size_t first_bytes, const void* second, std::size_t second_bytes,
                       bool locked) noexcept;

// --- capture_directory.cpp: call with the growth lock held -------------------------------------

// Creates the capture's directory and header, and defines settings and facts. False after a failure.
bool open_capture(ProcessState& state, ThreadState& thread) noexcept;

// --- flight_recorder.cpp: call with the growth lock held ---------------------------------------

// Makes room for `bytes` more under the size cap. Returns 0 or an errno.
int make_room(ProcessState& state, std::uint64_t bytes) noexcept;
// A block of an event segment was written and will not be written again.
void note_block(ProcessState& state, const Chunk& block) noexcept;
// Largest chunk, and tail, under the size cap.
std::size_t largest_chunk_bytes() noexcept;

}  // namespace msmemscope
