// A forked child has a capture of its own, and the parent's is not touched by it.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

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

void allocate_and_free(int count, std::size_t bytes) {
    for (int index = 0; index < count; ++index) {
        tests::hooked_free(allocate(bytes));
    }
}

std::uint32_t intern(const char* text) {
    const RecordingScope scope(true);
    return recorder::intern_string(scope, text, 5);
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings().c_str()));
    void* const inherited = allocate(500);
    allocate_and_free(10, 1000);
    CHECK(intern("hello") != 0);
    const std::uint64_t epoch = recorder::epoch();

    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        tests::hooked_free(inherited);  // not a block of this process
        std::thread([] { allocate_and_free(7, 2000); }).join();
        allocate_and_free(5, 3000);
        if (recorder::epoch() == epoch || intern("hello") == 0) {
            _exit(3);
        }
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            allocate_and_free(3, 4000);
            _exit(0);
        }
        int status = 0;
        waitpid(grandchild, &status, 0);
        recorder::close();
        _exit(WEXITSTATUS(status));
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
    allocate_and_free(4, 5000);
    tests::hooked_free(inherited);
    recorder::close();

    CHECK_EQUAL(tests::count_captures(folder.path()), 3U);
    const tests::Log parents = tests::read_log(folder.path(), getpid());
    CHECK_EQUAL(parents.of(format::EventKind::kMalloc).size(), 15U);
    CHECK_EQUAL(parents.of(format::EventKind::kFree).size(), 15U);
    const tests::Log childs = tests::read_log(folder.path(), child);
    CHECK_EQUAL(childs.of(format::EventKind::kMalloc).size(), 12U);
    CHECK_EQUAL(childs.of(format::EventKind::kFree).size(), 12U);
    CHECK_EQUAL(childs.header.parent_process_id, static_cast<std::uint32_t>(getpid()));
    CHECK_EQUAL(childs.records.front().sequence, 1U);
    return 0;
}
