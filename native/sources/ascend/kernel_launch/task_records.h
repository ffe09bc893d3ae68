// Layouts and meaning of what the profiler's interface and the device's log say of tasks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope::kernel_launch {

// --- The runtime's reports to profilers ---------------------------------------------------------

struct CompactReport {
    std::uint16_t magic;
    std::uint16_t level;
    std::uint32_t type;
    std::uint32_t thread;
    std::uint32_t data_bytes;
    std::uint64_t counter;
    unsigned char data[40];
};
static_assert(sizeof(CompactReport) == 64);

// The runtime gives a task to a device: data of a report of type 802.
struct TaskTrack {
    std::uint16_t device;
    std::uint16_t stream;
    std::uint32_t task;
    std::uint64_t task_type;
    std::uint64_t kernel_name;  // number of the name, 0 for what is no kernel; old versions have no such field
};
static_assert(sizeof(TaskTrack) == 24);

enum class ReportKind { kInvalid, kOther, kStreamsExpanded, kTask };

// Fills track for kTask. kStreamsExpanded: the device uses the other coding of stream and task numbers.
ReportKind read_report(const void* data, std::uint32_t bytes, TaskTrack& track) noexcept;

// --- The device's log of tasks ------------------------------------------------------------------

// Two formats: A2 and A3 (64 bytes), A5 and later (32 bytes).
enum class LogFormat { kLong, kShort };

constexpr std::size_t record_bytes(LogFormat format) noexcept { return format == LogFormat::kLong ? 64 : 32; }

// By the name of the chip, as the runtime has it ("Ascend910B1").
LogFormat format_of_chip(const char* name) noexcept;

struct TaskMoment {
    bool ends;  // otherwise it begins
    // Records in the short format do not tell the stream.
    bool has_stream;
    std::uint16_t stream;
    std::uint16_t task;
    std::uint64_t counter;
};

// False if the record is about something else.
bool read_log_record(LogFormat format, bool streams_expanded, const void* record, TaskMoment& moment) noexcept;

// --- The device's clock -------------------------------------------------------------------------

// When the device's counter had a value, and how fast it counts.
struct ClockReading {
    std::uint64_t counter;
    std::uint64_t realtime_ns;
    std::uint64_t frequency_khz;  // 0: not known
};

// CLOCK_REALTIME of a counter value.
std::uint64_t realtime_of(const ClockReading& reading, std::uint64_t counter) noexcept;

}  // namespace msmemscope::kernel_launch
