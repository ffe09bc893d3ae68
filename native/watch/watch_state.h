// The watch's own state, shared by its source files and by nobody else; all of it is used under one lock.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "core/observe/blocks.h"
#include "core/writer/bounded_lock.h"
#include "watch/dump_files.h"
#include "watch/running_operator.h"
#include "watch/watch.h"
#include "watch/written_pages.h"

namespace msmemscope::watch {

struct Watched {
    std::uint32_t number;
    Target target;
    format::Device device;
    std::uint32_t output;
    std::int64_t dumps_left;  // -1: no limit
    char name[kLongestName + 1];
    Content content;
    std::uint64_t begin;
    std::uint64_t end;
    LiveBlock block;  // that it lies in; sequence and size 0 if none is known
    Fingerprint fingerprint;
    WrittenPages pages;
    const char* ended_because;  // null while it is watched; told and removed at the next operator
    bool is_announced;

    Reading reading() const noexcept { return reading_of(device, block.size_bytes != 0); }
};

// Where a change was found.
struct Finding {
    bool is_during;          // an operator, and not between two
    const Running* running;  // the operator that ran, or begins now; null: a kernel that has no name yet
    const OperatorName* previous;
    const Running* writer;  // that may have written it, if that is another one
    bool may_write;
    bool writes_are_known;
    bool is_exact;
    bool is_beside;  // the operator may write another part of the same block
    std::size_t concurrent;
};

// --- watch.cpp ---------------------------------------------------------------------------------

// A block of memory was allocated; or is about to be freed. Inside a RecordingScope.
void block_begins(const LiveBlock& block) noexcept;
void block_ends(const LiveBlock& block) noexcept;
inline constexpr BlockListener kBlockListener{block_begins, block_ends};

// --- watch_events.cpp --------------------------------------------------------------------------

// Stacks begin at the caller of the function that the observer called.
void write_change(const Watched& watched, const Finding& finding, const Change& change, std::uint64_t checksum_before,
                  const CallSite& site) noexcept;
void write_start(const Watched& watched, bool full_content, const CallSite& site) noexcept;
void write_stop(const Watched& watched, const char* reason) noexcept;

struct Neighbour {
    LiveBlock block;
    bool is_written;
};
// Where a wrong write came from, and where it went on.
struct Overrun {
    bool from_neighbour;  // it began in the block before, behind what the operator may write of that
    std::uint64_t first_in_neighbour;
    std::size_t more_blocks;  // behind the one that is told of
    std::uint64_t until;      // the address behind the last byte in these
};
// A change of a block that nobody named. neighbour: null if there is none.
void write_change_of_block(const LiveBlock& block, const Finding& finding, const Change& change,
                           std::uint64_t checksum_before, std::uint64_t checksum_after, const Neighbour* neighbour,
                           const Overrun& overrun, const CallSite& site) noexcept;

// --- guard.cpp, guard_findings.cpp: automatic watching -----------------------------------------

class Guard {
public:
    void begin_following() noexcept;
    void add(const LiveBlock& block, std::uint64_t moment) noexcept;
    void remove(const LiveBlock& block) noexcept;

    void operator_begins(Running& running, const Vector<Running>& all, const OperatorName& previous,
                         std::uint64_t moment, const CallSite& site) noexcept;
    void operator_ends(Running& running, const Vector<Running>& all, bool come_later, std::uint64_t moment,
                       const CallSite& site) noexcept;
    // While nothing was collected, all blocks may have changed. So nothing of their contents is known any more.
    void forget_contents() noexcept;
    void note_coverage() const noexcept;
    void forget_all() noexcept;
    bool is_following() const noexcept { return is_following_; }

private:
    // A block, or a piece of one: the budget is spent piece by piece.
    struct Guarded {
        LiveBlock block;
        std::uint64_t offset;  // of the piece in its block
        std::uint64_t bytes;
        std::uint64_t birth_moment;
        std::uint64_t looked_at_moment;
        OperatorName looked_at_after;  // the operator that had ended last
        bool is_exempt;                // written by others at any time
        Fingerprint fingerprint;
        WrittenPages pages;

        std::uint64_t begin() const noexcept { return block.address + offset; }
        std::uint64_t end() const noexcept { return begin() + bytes; }
        // The part of the budget that a look at all of it takes. Bytes that were written since the last look come on
        // top.
        std::uint64_t cost() const noexcept;
        // Asks the kernel about this piece and the pieces behind it, so that it need not be asked about each.
        void ask() const noexcept;
    };
    using Blocks = Map<std::uint64_t, Guarded>;

    struct Found {
        LiveBlock block;
        Finding finding;
        OperatorName previous;
        Change change;  // with offsets in the block
        std::uint64_t checksum_before;
        std::uint64_t checksum_after;

        // Whether the same write can have made this finding and the one right before it in memory.
        bool continues(const Found& before) const noexcept;
    };

    static Content content_of(const Guarded& guarded) noexcept;
    static bool is_settled(const Guarded& guarded, const Vector<Running>& all, const Running* except) noexcept;
    // Looks at a piece, or its beginning; returns what it took of the budget.
    std::uint64_t look(Guarded& guarded, std::size_t most_segments, const Finding& finding, std::uint64_t moment,
                       const OperatorName& after) noexcept;
    void find(const Guarded& guarded, const Finding& finding, const Change& change,
              std::uint64_t checksum_before) noexcept;
    // Records what was found since it was called last.
    void report_findings(const CallSite& site) noexcept;
    void report_one(Found& found, const Overrun& overrun, const CallSite& site) noexcept;
    // Of a piece that the operator may write in part: the rest, such as the padding behind a tensor, must not change.
    void look_beside_writes(const Guarded& guarded, const Running& running, Finding finding) noexcept;
    // The same for larger pieces without a copy, in the memory right beside the part that the operator may write.
    void keep_margins(Running& running, const Vector<Running>& all) noexcept;
    void look_at_margins(const Running& running, const Vector<Running>& all, Finding finding) noexcept;
    // The first piece of the block behind the one that holds an address, or behind the address.
    Blocks::iterator block_behind(std::uint64_t address) noexcept;
    // The first piece that ends behind an address.
    Blocks::iterator piece_at(std::uint64_t address) noexcept;

    Blocks blocks_;
    Vector<Found> found_;
    std::uint64_t cursor_ = 0;  // address of the block to look at next
    bool is_following_ = false;
    // Of the report.
    std::uint64_t operators_ = 0;
    std::uint64_t bytes_looked_at_ = 0;
    std::uint64_t rounds_ = 0;
    std::uint64_t most_bytes_ = 0;
    std::uint64_t whole_looks_ = 0;  // operators before which every settled block was looked at
    std::uint64_t live_bytes_ = 0;
};

// --- window_start.cpp: the operator that opens the window of --watch ---------------------------

// Reports an operator that was named and never runs.
class WindowStart {
public:
    // name: "" for none. First reports what is still to be said of the earlier name.
    void expect(const char* name) noexcept;
    void note(const OperatorName& running) noexcept;
    // The operator has run and had so many outputs that can be watched.
    void note_opening(const OperatorName& running, std::size_t outputs) noexcept;
    // Once for each name: at the orderly end of the capture, or when another operator is named.
    void report() noexcept;
    // In a forked child: if the parent named an operator and did not meet it, the parent reports it.
    void become_child() noexcept;

private:
    char name_[kLongestName + 1] = "";
    bool has_run_ = false;
    bool is_child_ = false;
    bool operators_ran_ = false;
    bool reported_no_outputs_ = false;
    bool reported_never_began_ = false;
};

struct State {
    BoundedLock lock;
    pid_t process = 0;
    bool is_stale = true;  // something may have changed while nothing was collected
    bool window_is_open = false;
    bool writes_files = true;
    bool knows_outputs = false;
    bool folder_is_reported = false;
    bool knows_kernels = false;
    std::uint32_t last_number = 0;
    std::uint64_t moment = 0;
    OperatorName previous{};
    Vector<Watched> watched;
    Vector<Running> running;
    Map<std::uint64_t, std::uint64_t> calls;
    DumpFiles files;
    Guard guard;
    WindowStart window_start;
};

std::uint32_t this_thread_id() noexcept;

// --- watched_list.cpp: what is watched by name, or as output of an operator --------------------

// Asks observers for what the watch needs from now on.
void update_activity(const State& held) noexcept;
// Null if the memory cannot be read.
Watched* add_to(State& held, Target target, const Content& content, format::Device device, const char* name,
                std::int64_t dump_count, std::uint32_t output) noexcept;
void announce(State& held, Watched& watched, const CallSite& site) noexcept;
// Says what ended since, and takes it off the list.
void settle_list(State& held, const CallSite& site) noexcept;
// Records what has changed since the last look.
void look_at_all(State& held, Finding finding, const CallSite& site) noexcept;
// Writes what was seen at the last look to files.
void dump_all(State& held, const OperatorName& name, bool is_before) noexcept;
void open_window(State& held, const Running& running, const Output* outputs, std::size_t count,
                 const CallSite& site) noexcept;
void close_window(State& held) noexcept;

}  // namespace msmemscope::watch
