// A log that cannot grow because a thread holds it: events are lost after a while, and that is told.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "core/writer/process_state.h"
#include "core/writer/recorder.h"
#include "core/writer/stderr_line.h"
#include "tests/check.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

std::uint64_t record_one() {
    std::uint64_t sequence = 0;
    // A thread without a chunk: it has to grow the log.
    std::thread([&sequence] {
        const RecordingScope scope(true);
        CHECK(scope);
        sequence = recorder::append(scope, Event{format::EventKind::kMark});
    }).join();
    return sequence;
}

std::uint64_t record_one_while_the_log_is_held() {
    CHECK(process_state->growth_lock.acquire());
    const std::uint64_t sequence = record_one();
    process_state->growth_lock.release();
    return sequence;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t place = text.find(part); place != std::string::npos; place = text.find(part, place + 1)) {
        ++count;
    }
    return count;
}

}  // namespace

int main() {
    ScratchFolder folder;
    const std::string messages = folder.path() / "stderr";
    const auto output = folder.path() / "output";
    const int terminal = dup(STDERR_FILENO);
    const int file = open(messages.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    CHECK(file >= 0 && terminal >= 0);
    CHECK(recorder::configure(
        ("output=" + output.string() + "\nevents=alloc,free\ncollect_mode=immediate\ndevices=cpu").c_str()));

    CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO);
    remember_stderr();
    const std::uint64_t before_the_log_is_open = record_one_while_the_log_is_held();
    const std::uint64_t first = record_one();
    const std::uint64_t shown_when_opened = process_state->header->dropped_failure;
    // Segments of a thread that ended are taken over, with room in them: a second thread has to come to have none.
    std::uint64_t second = 0;
    {
        const RecordingScope scope(true);
        CHECK(scope);
        second = recorder::append(scope, Event{format::EventKind::kMark});
    }
    const std::uint64_t held = record_one_while_the_log_is_held();
    {
        const RecordingScope scope(true);
        const RecordingScope within(true);
        CHECK(!within);
    }
    recorder::close();
    recorder::close();
    CHECK(dup2(terminal, STDERR_FILENO) == STDERR_FILENO);

    CHECK_EQUAL(before_the_log_is_open, 0U);
    CHECK(first != 0);
    CHECK_EQUAL(shown_when_opened, 1U);
    CHECK(second != 0);
    CHECK_EQUAL(held, 0U);
    const tests::Log log = tests::read_log(output, getpid());
    CHECK(log.header.state == format::CaptureState::kClosed);
    CHECK_EQUAL(log.records.size(), 2U);
    CHECK_EQUAL(log.header.dropped_failure, 2U);
    CHECK_EQUAL(log.header.dropped_reentrant, 1U);

    std::ifstream stream(messages);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    CHECK_EQUAL(occurrences(text, "msmemscope: events are lost: a thread has held the event log for more than 2 "), 1U);
    CHECK_EQUAL(occurrences(text, "msmemscope: 2 events were lost because the event log could not grow in time "), 1U);
    CHECK_EQUAL(occurrences(text, "msmemscope: 1 event was lost because of calls from within msmemscope "), 1U);
    CHECK_EQUAL(occurrences(text, "\n"), 3U);
    return 0;
}
