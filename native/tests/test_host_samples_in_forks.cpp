// Samples of host memory while a program forks again and again: no child hangs, and each has its own samples.
// Usage: test_host_samples_in_forks FORKS THREADS
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/observe/host_sampling.h"
#include "core/writer/recorder.h"
#include "sources/host_heap/host_heap.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;
using format::EventKind;

namespace {

constexpr std::size_t kGiB = 1UL << 30U;
constexpr int kThreadsAtOnce = 8;
constexpr int kForksAtOnce = 4;

// Memory that nobody has: addresses alone.
std::atomic<std::uint64_t> next_address{1UL << 40U};
void* imagine(std::size_t bytes) { return reinterpret_cast<void*>(next_address.fetch_add(bytes)); }
void forget(void* memory) { static_cast<void>(memory); }

const auto hooked_malloc = tests::hooked(host_heap::kHooks, "malloc", &imagine);
const auto hooked_release = tests::hooked(host_heap::kHooks, "free", &forget);

// A block of 1 GiB is always sampled.
void allocate_and_release_a_sample() { hooked_release(hooked_malloc(kGiB)); }

[[noreturn]] void work_of_a_child(void* inherited) {
    hooked_release(inherited);  // no sample of this process
    void* const released = hooked_malloc(kGiB);
    hooked_malloc(kGiB);
    hooked_malloc(kGiB);
    hooked_release(released);
    recorder::close();
    _exit(0);
}

void fork_children(std::size_t forks, void* inherited, std::vector<pid_t>& children) {
    while (children.size() < forks) {
        for (int number = 0; number < kForksAtOnce; ++number) {
            const pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                work_of_a_child(inherited);
            }
            children.push_back(child);
        }
        for (int number = 0; number < kForksAtOnce; ++number) {
            int status = 0;
            CHECK(waitpid(children[children.size() - 1 - static_cast<std::size_t>(number)], &status, 0) > 0);
            CHECK_EQUAL(status, 0);
        }
    }
}

// Threads come and go all the time, as many as asked for in the end, and some of them longer, until the last fork.
void allocate_in_threads(std::size_t threads, const std::atomic<bool>& is_forking) {
    for (std::size_t begun = 0; begun < threads || is_forking; begun += kThreadsAtOnce) {
        std::vector<std::thread> at_once;
        for (int number = 0; number < kThreadsAtOnce; ++number) {
            at_once.emplace_back([] {
                for (int round = 0; round < 20; ++round) {
                    allocate_and_release_a_sample();
                }
            });
        }
        for (std::thread& thread : at_once) {
            thread.join();
        }
    }
}

void check_log(const tests::Log& log, std::size_t alive) {
    CHECK_EQUAL(log.of(EventKind::kHostSample).size(), log.of(EventKind::kHostSampleFree).size() + alive);
    CHECK(!log.of(EventKind::kHostMemory).empty());
    CHECK_EQUAL(log.header.dropped_reentrant, 0U);
}

}  // namespace

int main(int count, char** words) {
    CHECK_EQUAL(count, 3);
    const std::size_t forks = std::strtoul(words[1], nullptr, 10);
    const std::size_t threads = std::strtoul(words[2], nullptr, 10);
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("host=sampled\n").c_str()));
    recorder::begin_host_samples();
    void* const inherited = hooked_malloc(kGiB);
    hooked_malloc(kGiB);
    std::atomic<bool> is_forking{true};
    std::thread others([&] { allocate_in_threads(threads, is_forking); });
    std::vector<pid_t> children;
    fork_children(forks, inherited, children);
    is_forking = false;
    others.join();
    recorder::close();

    CHECK_EQUAL(tests::count_captures(folder.path()), children.size() + 1);
    check_log(tests::read_log(folder.path(), getpid()), 1);  // the first one showed that a log is worth it
    for (const pid_t child : children) {
        // The first one showed that a log is worth it.
        check_log(tests::read_log(folder.path(), child), 2);
    }
    return 0;
}
