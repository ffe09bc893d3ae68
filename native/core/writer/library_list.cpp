#include "core/writer/library_list.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace msmemscope {
namespace {

// Both with the order of all: a walk is counted before it looks for forks, and a fork before it looks for walks.
std::atomic<int> walks{0};
std::atomic<int> forks{0};
std::atomic<std::uint64_t> given_up{0};

// Nobody waits longer: a thread may stand still in its walk, for a debugger, or fork from a signal handler amid it.
constexpr int kMostWaits = 10'000;
constexpr timespec kWait{0, 100'000};

// A child that forked amid a walk ends a walk that it has not counted: the number is below zero then.
void wait_until_none(const std::atomic<int>& count) noexcept {
    for (int waits = 0; count.load() > 0 && waits < kMostWaits; ++waits) {
        // Not by nanosleep(), where a thread can be cancelled: fork() holds locks here, and nothing of ours unwinds.
        syscall(SYS_nanosleep, &kWait, nullptr);
    }
}

void before_fork() noexcept {
    forks.fetch_add(1);
    wait_until_none(walks);
}

void after_fork_in_parent() noexcept { forks.fetch_sub(1); }

void after_fork_in_child() noexcept {
    walks.store(0);
    forks.store(0);
}

}  // namespace

bool walk_libraries(int (*look)(dl_phdr_info*, std::size_t, void*), void* argument, DuringFork during_fork) noexcept {
    walks.fetch_add(1);
    while (forks.load() > 0) {
        walks.fetch_sub(1);
        if (during_fork == DuringFork::kGiveUp) {
            given_up.fetch_add(1);
            return false;
        }
        wait_until_none(forks);
        walks.fetch_add(1);
        if (forks.load() > 0) {
            break;  // one fork after the other, or one that stands still: the loader must not wait for them
        }
    }
    dl_iterate_phdr(look, argument);
    walks.fetch_sub(1);
    return true;
}

std::uint64_t walks_given_up() noexcept { return given_up.load(); }

bool keep_forks_out_of_walks() noexcept {
    return pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

}  // namespace msmemscope
