// Growing the event log, and what happens when it cannot grow.
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "core/writer/keep_errno.h"
#include "core/writer/process_state.h"
#include "core/writer/stderr_line.h"

namespace msmemscope {
namespace {

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
        case ESTALE:
            return "one of its files was replaced by another one";
        case ENOTDIR:
        case EEXIST:
            return "a file stands in the way";
        default:
            return nullptr;
    }
}

// A line on stderr and no fact of the capture, because the log cannot be written.
void write_line(const char* line, int length) noexcept {
    if (length > 0) {
        write_stderr_line(line, static_cast<std::size_t>(length));
    }
}

void report_loss(std::uint64_t events, const char* reason) noexcept {
    char line[256];
    const int length =
        std::snprintf(line, sizeof(line), "msmemscope: %" PRIu64 " %s lost because %s (process %d)\n", events,
                      events == 1 ? "event was" : "events were", reason, static_cast<int>(getpid()));
    write_line(line, length);
}

bool ensure_capture(ProcessState& state, ThreadState& thread) noexcept {
    if (state.failed.load(std::memory_order_relaxed)) {
        return false;
    }
    return state.phase.load(std::memory_order_acquire) == CapturePhase::kOpen || open_capture(state, thread);
}

// Adds the growth of the log to the sums, or fails if there was an error. Called with the growth lock held.
bool account(ProcessState& state, int error, std::uint64_t file_bytes, std::uint64_t mapped_bytes) noexcept {
    if (error != 0) {
        fail(state, error, "growing the event log");
        return false;
    }
    state.log_bytes += file_bytes;
    state.mapped_log_bytes += mapped_bytes;
    update_sizes(state);
    return true;
}

}  // namespace

void update_sizes(ProcessState& state) noexcept {
    if (state.header != nullptr) {
        state.header->log_bytes = state.log_bytes;
        // Counting resident pages takes a while: often at first, when tables grow, then now and then.
        const std::uint64_t growths = state.growth_count++;
        if ((growths & (growths - 1)) == 0 || growths % 1024 == 0) {
            state.header->tool_memory_bytes = recorder::tool_memory_bytes();
        }
    }
}

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
    const int length =
        std::snprintf(line, sizeof(line), "msmemscope: recording stopped: %s: %s (process %d; the program goes on)\n",
                      action, description, static_cast<int>(getpid()));
    write_line(line, length);
}

void report_held_log(ProcessState& state) noexcept {
    if (state.reported_held_log.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    char line[160];
    const int length = std::snprintf(line, sizeof(line),
                                     "msmemscope: events are lost: a thread has held the event log for more than 2 "
                                     "seconds (process %d; the program goes on)\n",
                                     static_cast<int>(getpid()));
    write_line(line, length);
}

void report_losses(ProcessState& state) noexcept {
    const std::uint64_t unwritten = state.dropped.failure.load(std::memory_order_relaxed);
    const std::uint64_t reentrant = state.dropped.reentrant.load(std::memory_order_relaxed);
    if ((unwritten == 0 && reentrant == 0) || state.losses_are_reported.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    // A failure that stopped recording was told when it came.
    if (unwritten != 0 && !state.failed.load(std::memory_order_relaxed)) {
        report_loss(unwritten, "the event log could not grow in time");
    }
    if (reentrant != 0) {
        report_loss(reentrant, "of calls from within msmemscope itself or a signal handler");
    }
}

bool grow_events(ProcessState& state, ThreadState& thread) noexcept {
    const KeepErrno keep_errno;
    EventFile& events = thread.events;
    const std::uint64_t file_bytes_before = thread.events_created ? events.file_bytes() : 0;
    const std::uint64_t mapped_before = events.mapped_bytes();
    const std::uint64_t block_before = events.last_block().offset;
    std::size_t largest_tail_bytes = 0;
    std::uint64_t claimed = 0;
    {
        const BoundedLockGuard guard(state.growth_lock);
        if (!guard) {
            report_held_log(state);
            return false;
        }
        if (!ensure_capture(state, thread)) {
            return false;
        }
        int error = thread.events_created ? 0 : events.create(state.event_log_directory, thread.number);
        thread.events_created = error == 0;
        largest_tail_bytes = largest_chunk_bytes();
        claimed = events.next_tail_bytes(largest_tail_bytes);
        error = error != 0 ? error : make_room(state, claimed);
        if (error != 0) {
            return account(state, error, 0, 0);
        }
        state.log_bytes += claimed;  // before others ask for room
    }
    // Other threads need not wait while this one packs.
    const int error = events.advance(state.event_log_directory, largest_tail_bytes, thread.packing);
    const BoundedLockGuard guard(state.growth_lock);
    if (!guard) {
        report_held_log(state);
        return error == 0;  // only the sums are not what they should be
    }
    state.log_bytes -= claimed;
    if (events.last_block().offset != block_before) {
        note_block(state, events.last_block());
    }
    return account(state, error, events.file_bytes() - file_bytes_before, events.mapped_bytes() - mapped_before);
}

bool grow_definitions(ProcessState& state, ThreadState& thread, std::size_t bytes, bool locked) noexcept {
    const KeepErrno keep_errno;
    if (!locked) {
        const BoundedLockGuard guard(state.growth_lock);
        if (!guard) {
            report_held_log(state);
            return false;
        }
        return grow_definitions(state, thread, bytes, true);
    }
    // Opening the capture defines things itself, and may have mapped a chunk already.
    if (!ensure_capture(state, thread)) {
        return false;
    }
    SegmentFile& segment = thread.definitions;
    if (static_cast<std::size_t>(segment.end - segment.cursor) >= bytes) {
        return true;
    }
    const std::uint64_t file_bytes_before = thread.definitions_created ? segment.file_bytes() : 0;
    const std::uint64_t mapped_before = segment.mapped_bytes();
    int error = 0;
    if (!thread.definitions_created) {
        error = segment.create(state.event_log_directory, SegmentFamily::kDefinitions, thread.number);
        thread.definitions_created = error == 0;
    }
    if (error == 0) {
        error = segment.advance(state.event_log_directory, bytes, largest_chunk_bytes());
    }
    if (error == ENOMEM && segment.has_chunk()) {
        // If a program runs out of address space, its last events are just the wanted ones. So a small chunk takes the
        // place of the full one.
        segment.unmap();
        error = segment.advance(state.event_log_directory, bytes, kFirstChunkBytes);
    }
    return account(state, error, segment.file_bytes() - file_bytes_before, segment.mapped_bytes() - mapped_before);
}

}  // namespace msmemscope
