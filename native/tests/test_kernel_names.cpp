// Names of kernels, the runtime's reports, and the device's log: what is read from them.
#include <cstring>
#include <memory>
#include <string>

#include "core/writer/recorder.h"
#include "sources/ascend/kernel_launch/kernel_names.h"
#include "sources/ascend/kernel_launch/pending_tasks.h"
#include "sources/ascend/kernel_launch/task_records.h"
#include "tests/check.h"

using namespace msmemscope;
using namespace msmemscope::kernel_launch;

namespace {

void hashes() {
    CHECK_EQUAL(name_hash("Add", 3), 0xe141001138d9ULL);
    CHECK_EQUAL(name_hash("Add", 100), 0xe141001138d9ULL);  // ends at the zero byte
    CHECK_EQUAL(name_hash("AddN", 3), 0xe141001138d9ULL);
    CHECK_EQUAL(name_hash("", 0), 0ULL);
    // Letters are signed, whatever char is on the machine.
    CHECK_EQUAL(name_hash("\xff", 1), 0xffffffffffffffffULL);
}

void names() {
    const auto table = std::make_unique<KernelNames>();
    CHECK(table->find(7) == nullptr);
    CHECK(table->add(7, "seven", 5));
    CHECK(table->add(7, "other", 5));  // the first one holds
    CHECK(std::strcmp(table->find(7), "seven") == 0);
    CHECK(table->add(8, "eight and more", 5));
    CHECK(std::strcmp(table->find(8), "eight") == 0);
    CHECK(!table->add(0, "nothing", 7));
    CHECK(table->find(0) == nullptr);
    CHECK(table->add(9, std::string(5000, 'x').c_str(), 5000));
    CHECK_EQUAL(std::strlen(table->find(9)), KernelNames::kLongest);
    // Full: names are refused, and those that are known stay.
    std::uint64_t id = 1000;
    while (table->add(name_hash(reinterpret_cast<const char*>(&id), sizeof(id)) | 1U << 31U, "name", 4)) {
        ++id;
    }
    CHECK(id - 1000 > KernelNames::kCapacity / 2);
    CHECK(std::strcmp(table->find(7), "seven") == 0);
}

void string_ids() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings().c_str()));
    const RecordingScope scope(true);
    KernelNames& table = kernel_names();
    CHECK_EQUAL(table.string_id(scope, 77), 0U);
    CHECK(table.add(77, "a kernel", 8));
    const std::uint32_t id = table.string_id(scope, 77);
    CHECK(id != 0);
    CHECK_EQUAL(table.string_id(scope, 77), id);
    CHECK_EQUAL(recorder::intern_string(scope, "a kernel", 8), id);
}

CompactReport report_of(std::uint16_t level, std::uint32_t type, const TaskTrack& track) {
    CompactReport report{};
    report.magic = 0x5a5a;
    report.level = level;
    report.type = type;
    std::memcpy(report.data, &track, sizeof(track));
    return report;
}

void reports() {
    const TaskTrack sent{3, 17, 0x00020009, 66, 0xe141001138d9ULL};
    const CompactReport report = report_of(5000, 802, sent);
    TaskTrack track{};
    CHECK(read_report(&report, sizeof(report), track) == ReportKind::kTask);
    CHECK_EQUAL(track.device, 3);
    CHECK_EQUAL(track.stream, 17);
    CHECK_EQUAL(track.task, 0x00020009U);
    CHECK_EQUAL(track.kernel_name, 0xe141001138d9ULL);
    CHECK(read_report(nullptr, sizeof(report), track) == ReportKind::kInvalid);
    CHECK(read_report(&report, sizeof(report) - 1, track) == ReportKind::kInvalid);
    CHECK(read_report(&report, sizeof(report) + 8, track) == ReportKind::kInvalid);
    const CompactReport copy = report_of(5000, 801, sent);
    CHECK(read_report(&copy, sizeof(copy), track) == ReportKind::kOther);
    const CompactReport node = report_of(10000, 802, sent);
    CHECK(read_report(&node, sizeof(node), track) == ReportKind::kOther);
    CompactReport expanded = report_of(5000, 804, TaskTrack{});
    CHECK(read_report(&expanded, sizeof(expanded), track) == ReportKind::kOther);
    expanded.data[0] = 1;
    CHECK(read_report(&expanded, sizeof(expanded), track) == ReportKind::kStreamsExpanded);
}

struct Coding {
    bool expanded;
    unsigned type;
    unsigned raw_stream;
    unsigned raw_task;
    unsigned stream;
    unsigned task;
};

constexpr Coding kCodings[] = {
    {false, 0, 5, 0x1234, 5, 0x1234},
    {false, 0, 2047, 0xffff, 2047, 0xffff},
    {false, 0, 2048 + 3, 9, 3, 9},
    // Bit 12: the upper three bits of the task are in the stream's word.
    {false, 0, 0x1000 | 7, 0x0042, 7, 0x0042},
    {false, 0, 0xe000 | 0x1000 | 7, 0x1abc, 7, 0xfabc},
    // Bit 13: the words have changed places.
    {false, 0, 0x2000 | 0x0123, 0x4000 | 5, 5, 0x4123},
    {true, 0, 5, 0x9234, 5, 0x9234},
    {true, 0, 0x7fff, 1, 0x7fff, 1},
    {true, 0, 0x8000 | 0x0123, 0x8000 | 5, 5, 0x8123},
    {true, 0, 0x8000 | 0x0123, 5, 5, 0x0123},
    {true, 3, 0x8000 | 0x0123, 0x8005, 0x0123, 0x8005},
    {true, 4, 0x8000 | 0x0123, 0x8005, 0x0123, 0x8005},
};

void log_records() {
    for (const Coding& coding : kCodings) {
        unsigned char record[64] = {};
        const std::uint32_t words[] = {1U | coding.type << 10U | 0x6bd3U << 16U,
                                       coding.raw_stream | coding.raw_task << 16U, 0x9abcdef0U, 0x12345678U};
        std::memcpy(record, words, sizeof(words));
        TaskMoment moment{};
        CHECK(read_log_record(LogFormat::kLong, coding.expanded, record, moment));
        CHECK(moment.ends && moment.has_stream);
        CHECK_EQUAL(moment.stream, coding.stream);
        CHECK_EQUAL(moment.task, coding.task);
        CHECK_EQUAL(moment.counter, 0x123456789abcdef0ULL);
    }
    unsigned char record[32] = {};
    const std::uint32_t words[] = {0x6bd30000U, 0x00051234U, 0x9abcdef0U, 0x12345678U};
    std::memcpy(record, words, sizeof(words));
    TaskMoment moment{};
    CHECK(read_log_record(LogFormat::kShort, false, record, moment));
    CHECK(!moment.ends && !moment.has_stream);
    CHECK_EQUAL(moment.task, 0x1234);
    CHECK_EQUAL(moment.counter, 0x123456789abcdef0ULL);
    record[0] = 2;  // neither begin nor end
    CHECK(!read_log_record(LogFormat::kShort, false, record, moment));

    CHECK(format_of_chip("Ascend910B1") == LogFormat::kLong);
    CHECK(format_of_chip("Ascend910_9392") == LogFormat::kLong);
    CHECK(format_of_chip("Ascend950PR_9599") == LogFormat::kShort);
    CHECK(format_of_chip("Ascend960") == LogFormat::kShort);
    CHECK(format_of_chip(nullptr) == LogFormat::kLong);
}

void clocks() {
    const ClockReading reading{1000, 1700000000000000000ULL, 50000};  // 20 ns a tick
    CHECK_EQUAL(realtime_of(reading, 1000), 1700000000000000000ULL);
    CHECK_EQUAL(realtime_of(reading, 1001), 1700000000000000020ULL);
    CHECK_EQUAL(realtime_of(reading, 900), 1699999999999998000ULL);
    // Days of a fast clock.
    const ClockReading fast{0, 1700000000000000000ULL, 1000000};
    CHECK_EQUAL(realtime_of(fast, 864000000000000ULL), 1700864000000000000ULL);
}

void pending() {
    const auto table = std::make_unique<PendingTasks>();
    PendingTask task{};
    const TaskKey key{1, true, 5, 9};
    CHECK(!table->find(key, task) && !table->take(key, task));
    table->put(key, {42, 5});
    CHECK(table->find(key, task) && task.name_id == 42 && task.stream == 5);
    CHECK(!table->find({0, true, 5, 9}, task) && !table->find({1, true, 6, 9}, task));
    CHECK(!table->find({1, true, 5, 10}, task));
    table->put(key, {43, 5});  // the number is used again
    CHECK(table->take(key, task) && task.name_id == 43);
    CHECK(!table->take(key, task));
    // Without streams the same task of another stream is the same task.
    table->put({1, false, 5, 9}, {44, 5});
    CHECK(table->take({1, false, 0, 9}, task) && task.name_id == 44 && task.stream == 5);
    // Every task of a stream and its neighbours is found while the table is not full, and a full one takes new ones.
    for (unsigned number = 0; number < PendingTasks::kCapacity / 2; ++number) {
        table->put({0, true, static_cast<std::uint16_t>(number % 4), static_cast<std::uint16_t>(number / 4)},
                   {number + 1, 0});
    }
    for (unsigned number = 0; number < PendingTasks::kCapacity / 2; ++number) {
        const TaskKey each{0, true, static_cast<std::uint16_t>(number % 4), static_cast<std::uint16_t>(number / 4)};
        CHECK(table->take(each, task) && task.name_id == number + 1);
    }
    for (unsigned number = 0; number < 3 * PendingTasks::kCapacity; ++number) {
        const TaskKey each{0, true, static_cast<std::uint16_t>(number >> 16U), static_cast<std::uint16_t>(number)};
        table->put(each, {number + 1, 0});
        CHECK(table->find(each, task) && task.name_id == number + 1);
    }
    table->clear();
    CHECK(!table->find({0, true, 1, 5}, task));
}

}  // namespace

int main() {
    hashes();
    names();
    reports();
    log_records();
    clocks();
    pending();
    string_ids();
    return 0;
}
