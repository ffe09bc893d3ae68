// Steps: which are collected, from both sources, and that the second source is ignored.
#include <unistd.h>

#include <cstring>
#include <string>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "core/writer/steps.h"
#include "sources/ascend/mstx/marks.h"
#include "tests/check.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

std::uint32_t end_step() { return steps::end_step(format::kDeviceCpu); }

void allocate(std::uint64_t size) {
    recorder::observe_allocation(format::Pool::kPta, 0, 0x1000 + size * 4096, size, MSMEMSCOPE_CALL_SITE());
}

// Sizes of blocks allocated while collecting.
std::string sizes_in(const tests::Log& log) {
    std::string sizes;
    for (const format::Record& record : log.of(format::EventKind::kMalloc)) {
        sizes += (record.flags & format::kFlagShadow) == 0 ? std::to_string(record.size) + " " : "";
    }
    return sizes;
}

void step_with_marks() {
    CHECK(!recorder::is_collecting());  // the first step is not wanted
    allocate(1);
    CHECK_EQUAL(mstx::range_start("step", nullptr), 1U);
    const std::uint64_t first = mstx::range_start("step start", nullptr);
    allocate(2);
    mstx::range_end(first);
    allocate(3);
    const std::uint64_t second = mstx::range_start("step start", nullptr);
    allocate(4);
    const std::uint64_t inner = mstx::range_start("inner", nullptr);
    mstx::range_end(inner);
    allocate(5);  // only its own number ends a step
    const std::uint64_t third = mstx::range_start("step start", nullptr);
    allocate(6);  // the second still runs
    mstx::range_end(second);
    allocate(7);
    const std::uint64_t fourth = mstx::range_start("step start", nullptr);
    allocate(8);
    mstx::range_end(third);
    allocate(9);
    mstx::range_end(fourth);
    allocate(10);
    CHECK_EQUAL(end_step(), 0U);  // not the source
    allocate(11);
}

void step_with_calls() {
    CHECK(!recorder::is_collecting());  // start() has not been called
    allocate(1);
    steps::begin_tracing();
    CHECK(!recorder::is_collecting());
    CHECK_EQUAL(end_step(), 1U);
    allocate(2);
    const std::uint64_t range = mstx::range_start("step start", nullptr);  // not the source
    allocate(3);
    mstx::range_end(range);
    CHECK_EQUAL(end_step(), 2U);
    allocate(4);
    CHECK_EQUAL(end_step(), 3U);
    allocate(5);
    CHECK_EQUAL(end_step(), 4U);
    allocate(6);
}

}  // namespace

int main(int, char** arguments) {
    const bool with_marks = std::strcmp(arguments[1], "marks") == 0;
    ScratchFolder folder;
    const std::string more =
        with_marks ? "devices=npu\nsteps=2,4\n" : "devices=npu\nsteps=2,4\ncollect_mode=deferred\n";
    CHECK(recorder::configure(folder.settings(more).c_str()));
    with_marks ? step_with_marks() : step_with_calls();
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK_EQUAL(log.of(format::EventKind::kStep).size(), with_marks ? 0U : 4U);
    if (!with_marks) {
        CHECK(log.of(format::EventKind::kStep).front().extra > 0);  // memory of this process
    }
    const std::string sizes = sizes_in(log);
    if (with_marks) {
        CHECK(sizes == "4 5 6 8 9 ");
        CHECK(log.has_fact("message=msmemscope.step() is ignored: ranges \"step start\" are this program's steps"));
        CHECK_EQUAL(log.of(format::EventKind::kRangeStart).size(), 4U);
        CHECK_EQUAL(log.of(format::EventKind::kRangeEnd).size(), 4U);
    } else {
        CHECK(sizes == "2 3 5 ");
        CHECK(log.has_fact("message=ranges \"step start\" are no steps: this program's steps are msmemscope.step()"));
        CHECK_EQUAL(log.of(format::EventKind::kRangeStart).size(), 1U);
    }
    return 0;
}
