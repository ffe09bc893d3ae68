// The process header: one page per capture that says who wrote it, how to read
// it, and what was lost. Also the 64-byte header at the start of each segment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::format {

// Raised by one for every change that an older reader would misread.
inline constexpr std::uint32_t kFormatVersion = 14;

inline constexpr std::uint64_t kByteOrderMark = 0x0102030405060708ULL;

// "MSMSCOPE" when read as bytes on a little-endian machine.
inline constexpr std::uint64_t kProcessMagic = 0x45504f43534d534dULL;
// "MSEVENTS": records as they are, of a file of the flight recorder, and of events until version 7.
inline constexpr std::uint64_t kEventSegmentMagic = 0x53544e455645534dULL;
// "MSPACKED": a tail of records as they are, and blocks of packed ones.
inline constexpr std::uint64_t kPackedSegmentMagic = 0x44454b434150534dULL;
// "MSDEFINE".
inline constexpr std::uint64_t kDefinitionSegmentMagic = 0x454e49464544534dULL;

// Entries of a segment start here; what lies before is its SegmentHeader and zeros.
inline constexpr std::size_t kSegmentDataOffset = 4096;
// In a packed segment the tail starts there, and the blocks here; the tail is never larger than the room between.
inline constexpr std::size_t kPackedBlocksOffset = 266240;  // 256 KiB behind it

enum class CaptureState : std::uint32_t {
    kOpen = 1,    // still recording, or ended without a chance to say so
    kClosed = 2,  // the process ended in an orderly way
    kFailed = 3,  // recording stopped early: see failure_errno
};

struct ProcessHeader {
    std::uint64_t magic;
    std::uint64_t byte_order_mark;
    std::uint32_t format_version;
    std::uint32_t header_bytes;
    std::uint32_t record_bytes;
    CaptureState state;
    std::uint32_t process_id;
    std::uint32_t parent_process_id;
    // CLOCK_REALTIME when the capture was opened, and when it was closed (0 if not).
    std::uint64_t start_ns;
    std::uint64_t end_ns;
    // Field 22 of /proc/PID/stat: together with the process id it names one
    // process, so that a reader can tell whether it still runs.
    std::uint64_t process_start_ticks;
    // Names the launch that this process belongs to; 0 if it was not launched.
    std::uint64_t session;
    // errno of the failure that stopped recording, 0 if none.
    std::uint32_t failure_errno;
    std::uint32_t python_version_hex;
    // Events that were not recorded, by reason.
    std::uint64_t dropped_reentrant;  // inside our own code, or a signal handler
    std::uint64_t dropped_failure;    // after a write failure, or the log could not grow in time
    std::uint64_t dropped_recycled;   // flight recorder: overwritten, live blocks kept
    std::uint64_t lost_definitions;   // an id is used whose table was full
    std::uint64_t untracked_blocks;   // the table of live blocks was full
    // Memory of the tool inside the process, anonymous and file-backed, at the
    // last growth, and the most that the tables could ever take.
    std::uint64_t tool_memory_bytes;
    std::uint64_t tool_memory_limit_bytes;
    // Cap given by --max-size (0: none), and bytes of segments now.
    std::uint64_t maximum_log_bytes;
    std::uint64_t log_bytes;
};
static_assert(sizeof(ProcessHeader) == 152);
static_assert(offsetof(ProcessHeader, start_ns) == 40);
static_assert(offsetof(ProcessHeader, failure_errno) == 72);
static_assert(offsetof(ProcessHeader, dropped_reentrant) == 80);

struct SegmentHeader {
    std::uint64_t magic;
    std::uint64_t byte_order_mark;
    std::uint32_t format_version;
    std::uint32_t segment_number;
    // Packed segments: where in the file the records of the tail will stand as a block. If a committed block stands
    // there already, the tail's are those, and do not count.
    std::uint64_t tail_position;
    // Packed segments: the most bytes that the tail can hold until it becomes a block.
    std::uint64_t tail_bytes;
    // These three belong to packed segments, and are written when the process ends in an orderly way:
    // - the checksum of the first records of the tail;
    // - the number of these records;
    // - the tail_position at that time.
    //
    // If the tail has become a block since, they mean nothing.
    std::uint64_t sealed_checksum;
    std::uint64_t sealed_records;
    std::uint64_t sealed_position;
};
static_assert(sizeof(SegmentHeader) == 64);

}  // namespace msmemscope::format
