#include "sources/ascend/kernel_launch/task_records.h"

#include <cstring>

namespace msmemscope::kernel_launch {
namespace {

constexpr std::uint16_t kRuntimeLevel = 5000;
constexpr std::uint32_t kTaskTrackType = 802;
constexpr std::uint32_t kStreamsExpandedType = 804;

struct LongRecord {
    std::uint32_t head;
    std::uint16_t stream;
    std::uint16_t task;
    std::uint32_t counter_low;
    std::uint32_t counter_high;
    unsigned char rest[48];
};
static_assert(sizeof(LongRecord) == record_bytes(LogFormat::kLong));

struct ShortRecord {
    std::uint32_t head;
    std::uint32_t task;
    std::uint64_t counter;
    unsigned char rest[16];
};
static_assert(sizeof(ShortRecord) == record_bytes(LogFormat::kShort));

// The first word of both.
constexpr unsigned what_happened(std::uint32_t head) noexcept { return head & 0x3fU; }
constexpr unsigned task_type(std::uint32_t head) noexcept { return head >> 10U & 0x3fU; }

// Numbers of streams have 11 bits, or 15 with expanded streams. The word of the stream can also hold bits of the task's
// number, which is longer than its own word has room for. A bit of that word says so. With another bit the two words
// have changed places.
void decode_expanded(unsigned type, unsigned stream, unsigned task, TaskMoment& moment) noexcept {
    const bool is_plain = type == 3 || type == 4 || (stream & 0x8000U) == 0;
    moment.stream = static_cast<std::uint16_t>((is_plain ? stream : task) & 0x7fffU);
    moment.task = static_cast<std::uint16_t>(is_plain ? task : (task & 0x8000U) | (stream & 0x7fffU));
}

void decode_plain(unsigned stream, unsigned task, TaskMoment& moment) noexcept {
    if ((stream & 0x1000U) != 0) {
        moment.stream = static_cast<std::uint16_t>(stream % 2048);
        moment.task = static_cast<std::uint16_t>((task & 0x1fffU) | (stream & 0xe000U));
    } else if ((stream & 0x2000U) != 0) {
        moment.stream = static_cast<std::uint16_t>((task & 0xfffU) % 2048);
        moment.task = static_cast<std::uint16_t>((stream & 0xfffU) | (task & 0xf000U));
    } else {
        moment.stream = static_cast<std::uint16_t>(stream % 2048);
        moment.task = static_cast<std::uint16_t>(task);
    }
}

}  // namespace

ReportKind read_report(const void* data, std::uint32_t bytes, TaskTrack& track) noexcept {
    if (data == nullptr || bytes != sizeof(CompactReport)) {
        return ReportKind::kInvalid;
    }
    CompactReport report;
    std::memcpy(&report, data, sizeof(report));
    if (report.level != kRuntimeLevel) {
        return ReportKind::kOther;
    }
    if (report.type == kStreamsExpandedType) {
        return report.data[0] == 1 ? ReportKind::kStreamsExpanded : ReportKind::kOther;
    }
    if (report.type != kTaskTrackType) {
        return ReportKind::kOther;
    }
    std::memcpy(&track, report.data, sizeof(track));
    return ReportKind::kTask;
}

LogFormat format_of_chip(const char* name) noexcept {
    const bool is_short =
        name != nullptr && (std::strstr(name, "950") != nullptr || std::strstr(name, "960") != nullptr);
    return is_short ? LogFormat::kShort : LogFormat::kLong;
}

bool read_log_record(LogFormat format, bool streams_expanded, const void* record, TaskMoment& moment) noexcept {
    std::uint32_t head = 0;
    if (format == LogFormat::kShort) {
        ShortRecord read;
        std::memcpy(&read, record, sizeof(read));
        head = read.head;
        moment.has_stream = false;
        moment.stream = 0;
        moment.task = static_cast<std::uint16_t>(read.task);
        moment.counter = read.counter;
    } else {
        LongRecord read;
        std::memcpy(&read, record, sizeof(read));
        head = read.head;
        moment.has_stream = true;
        moment.counter = static_cast<std::uint64_t>(read.counter_high) << 32U | read.counter_low;
        if (streams_expanded) {
            decode_expanded(task_type(head), read.stream, read.task, moment);
        } else {
            decode_plain(read.stream, read.task, moment);
        }
    }
    moment.ends = what_happened(head) == 1;
    return what_happened(head) <= 1;
}

std::uint64_t realtime_of(const ClockReading& reading, std::uint64_t counter) noexcept {
    const auto passed = static_cast<__int128>(counter) - static_cast<__int128>(reading.counter);
    const __int128 nanoseconds = passed * 1000000 / static_cast<__int128>(reading.frequency_khz);
    return static_cast<std::uint64_t>(static_cast<__int128>(reading.realtime_ns) + nanoseconds);
}

}  // namespace msmemscope::kernel_launch
