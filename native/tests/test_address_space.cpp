// A process without any address space left: its log grows all the same, each chunk in the place of the one before.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

constexpr int kRounds = 20000;

void allocate_and_free() {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, 256) == 0);
    tests::hooked_free(memory);
}

rlim_t mapped_bytes() {
    std::ifstream statistics("/proc/self/statm");
    rlim_t pages = 0;
    statistics >> pages;
    return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

int main() {
    ScratchFolder folder;
    const auto output = folder.path() / "output";
    CHECK(recorder::configure(
        ("output=" + output.string() + "\nevents=alloc,free\ncollect_mode=immediate\ndevices=cpu").c_str()));
    allocate_and_free();
    rlimit limit{};
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    const rlimit full{mapped_bytes(), limit.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &full) == 0);
    CHECK(mmap(nullptr, 1UL << 16U, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    for (int round = 0; round < kRounds; ++round) {
        allocate_and_free();
    }
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    recorder::close();
    const tests::Log log = tests::read_log(output, getpid());
    CHECK(log.header.state == format::CaptureState::kClosed);
    CHECK_EQUAL(log.header.dropped_failure, 0U);
    CHECK_EQUAL(log.records.size(), 2U * (kRounds + 1U));
    return 0;
}
