// A log that cannot grow: one line on stderr, recording stops, allocations go on.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "core/writer/recorder.h"
#include "core/writer/stderr_line.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

int main() {
    ScratchFolder folder;
    const std::string messages = folder.path() / "stderr";
    const int file = open(messages.c_str(), O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    remember_stderr();
    const auto output = folder.path() / "output";
    // A third of a million bytes: the first chunks fit.
    const rlimit limit{350000, 350000};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(recorder::configure(
        ("output=" + output.string() + "\nevents=alloc,free\ncollect_mode=immediate\ndevices=cpu").c_str()));
    for (int round = 0; round < 20000; ++round) {
        void* memory = nullptr;
        CHECK(tests::hooked_posix_memalign(&memory, 64, 256) == 0);
        tests::hooked_free(memory);
    }
    recorder::close();
    const tests::Log log = tests::read_log(output, getpid());
    CHECK(log.header.state == format::CaptureState::kFailed);
    CHECK_EQUAL(log.header.failure_errno, static_cast<std::uint32_t>(EFBIG));
    CHECK(log.records.size() > 1000);
    CHECK(log.header.dropped_failure > 0);

    std::ifstream stream(messages);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    CHECK(text.find("msmemscope: recording stopped: growing the event log: file size limit reached") == 0);
    CHECK_EQUAL(std::count(text.begin(), text.end(), '\n'), 1);
    return 0;
}
