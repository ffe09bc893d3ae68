// The records while events are collected, while they are not, and after collection begins late.
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, bytes) == 0);
    return memory;
}

std::uint32_t intern(const char* text) {
    const RecordingScope scope(true);
    CHECK(static_cast<bool>(scope));
    return recorder::intern_string(scope, text, std::strlen(text));
}

}  // namespace

int main() {
    ScratchFolder folder;
    // Nothing is configured: the hooks only pass through.
    tests::hooked_free(allocate(100));
    CHECK(!recorder::is_configured());
    CHECK(!recorder::configure("output=relative"));

    recorder::note_fact("observed.test", "before the capture");
    CHECK(recorder::configure(folder.settings("collect_mode=deferred\n").c_str()));
    CHECK(!recorder::is_collecting());
    void* const before = allocate(1000);
    tests::hooked_free(allocate(1001));
    CHECK_EQUAL(tests::count_captures(folder.path()), 0U);  // nothing was recorded, so nothing is on disk

    {
        const RecordingScope scope(true);
        recorder::start_collecting(scope);
        const RecordingScope nested(true);  // as in a signal handler
        CHECK(!static_cast<bool>(nested));
    }
    CHECK(recorder::is_selected(kSelectAlloc) && !recorder::is_selected(kSelectTraceback));
    CHECK_EQUAL(intern("aten.add"), intern("aten.add"));
    CHECK(intern("aten.add") != intern("aten.mul"));
    recorder::set_current_operator(intern("aten.add"));
    errno = 77;  // opening the capture makes many system calls, and some of them fail
    void* const during = allocate(2000);
    CHECK_EQUAL(errno, 77);
    recorder::set_current_operator(0);
    CHECK(recorder::live_block_sequence(format::Pool::kHost, reinterpret_cast<std::uint64_t>(during)) != 0);
    tests::hooked_free(allocate(0));
    tests::hooked_free(before);
    {
        const RecordingScope scope(true);
        recorder::stop_collecting(scope);
    }
    void* const after = allocate(3000);
    tests::hooked_free(during);
    tests::hooked_free(after);
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK(log.header.state == format::CaptureState::kClosed);
    CHECK_EQUAL(log.header.dropped_reentrant, 1U);
    CHECK(log.has_fact("observed.test=before the capture"));
    CHECK(log.has_fact("setting.devices=cpu"));
    const auto allocations = log.of(format::EventKind::kMalloc);
    const auto frees = log.of(format::EventKind::kFree);
    CHECK_EQUAL(allocations.size(), 3U);
    CHECK_EQUAL(frees.size(), 3U);
    CHECK_EQUAL(allocations[0].size, 1000);
    CHECK_EQUAL(allocations[0].flags, format::kFlagShadow);
    CHECK_EQUAL(allocations[1].size, 2000);
    CHECK_EQUAL(allocations[1].name_id, intern("aten.add"));
    CHECK_EQUAL(allocations[1].flags, 0);
    CHECK(format::device_of(allocations[1]) == format::kDeviceCpu && allocations[1].pool == format::Pool::kHost);
    CHECK_EQUAL(frees[1].extra, allocations[0].sequence);
    CHECK_EQUAL(frees[1].size, 1000);
    CHECK_EQUAL(frees[2].extra, allocations[1].sequence);
    CHECK_EQUAL(frees[2].flags, format::kFlagShadow);  // freed while nothing was collected
    for (const auto& record : log.records) {
        CHECK_EQUAL(format::thread_of(record), static_cast<std::uint32_t>(getpid()));
    }
    return 0;
}
