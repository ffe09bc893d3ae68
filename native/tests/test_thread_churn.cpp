// Many short threads: segments are handed on, so their number follows the threads alive at once.
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings().c_str()));
    constexpr int kGenerations = 200;
    constexpr int kAtOnce = 4;
    for (int generation = 0; generation < kGenerations; ++generation) {
        std::vector<std::thread> threads;
        for (int thread = 0; thread < kAtOnce; ++thread) {
            threads.emplace_back([] {
                void* memory = nullptr;
                CHECK(tests::hooked_posix_memalign(&memory, 64, 64) == 0);
                tests::hooked_free(memory);
            });
        }
        for (auto& thread : threads) {
            thread.join();
        }
    }
    recorder::close();
    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK_EQUAL(log.records.size(), 2U * kGenerations * kAtOnce);
    CHECK(tests::allocated_bytes(folder.path(), getpid()) < 4UL << 20U);
    return 0;
}
