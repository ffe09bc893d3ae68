// T threads with N events each: none is lost, no number is given twice, each FREE finds its MALLOC.
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

int main(int count, char** arguments) {
    CHECK(count == 3);
    const int threads_count = std::atoi(arguments[1]);
    const int events = std::atoi(arguments[2]);
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings().c_str()));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < threads_count; ++thread) {
        threads.emplace_back([events, thread] {
            // A few blocks alive at any time, freed in another order than they were allocated.
            std::vector<void*> alive(16, nullptr);
            for (int event = 0; event < events / 2; ++event) {
                void*& place = alive[static_cast<std::size_t>(event * 7) % alive.size()];
                tests::hooked_free(place);
                CHECK(tests::hooked_posix_memalign(&place, 64, 64 + static_cast<std::size_t>(thread)) == 0);
            }
            for (void* memory : alive) {
                tests::hooked_free(memory);
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    recorder::close();
    const tests::Log log = tests::read_log(folder.path(), getpid());
    const auto expected = static_cast<std::size_t>(threads_count) * static_cast<std::size_t>(events / 2);
    CHECK_EQUAL(log.of(format::EventKind::kMalloc).size(), expected);
    CHECK_EQUAL(log.of(format::EventKind::kFree).size(), expected);
    CHECK_EQUAL(log.records.size(), 2 * expected);
    CHECK_EQUAL(log.records.front().sequence, 1U);
    CHECK_EQUAL(log.records.back().sequence, 2 * expected);  // unique (see read_log), so without a gap
    CHECK_EQUAL(log.header.dropped_reentrant + log.header.dropped_failure + log.header.untracked_blocks, 0U);
    std::printf("threads=%d events=%zu bytes_per_event=%.1f\n", threads_count, log.records.size(),
                static_cast<double>(log.header.log_bytes) / static_cast<double>(log.records.size()));
    return 0;
}
