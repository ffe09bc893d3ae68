// Calls into processes that wait or compute in many ways: each call returns, and each process notices nothing.
#include <dlfcn.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "offline/remote_call/load_and_call.h"

namespace {

using msmemscope::remote_call::Answer;
using msmemscope::remote_call::load_and_call;
using msmemscope::remote_call::Outcome;
using msmemscope::remote_call::Request;
using Clock = std::chrono::steady_clock;

constexpr int kReady = 3;  // descriptors of the process that is called into
constexpr int kGoOn = 4;
constexpr double kLength_s = 1.0;
constexpr double kLate_s = 0.5;
constexpr int kCalls = 20;
volatile sig_atomic_t alarms = 0;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void say_ready() { CHECK_EQUAL(write(kReady, "r", 1), 1); }

// It takes as long as was asked for, however often the thread is stopped meanwhile.
template <typename Wait>
void check_length(Wait wait) {
    const Clock::time_point begin = Clock::now();
    say_ready();
    wait();
    const double took_s = seconds_since(begin);
    std::fprintf(stderr, "waited %.3f s of %.1f\n", took_s, kLength_s);
    CHECK(took_s >= kLength_s && took_s < kLength_s + kLate_s);
}

timespec length() { return {static_cast<time_t>(kLength_s), 0}; }

timespec end_of_length(clockid_t clock) {
    timespec end{};
    clock_gettime(clock, &end);
    end.tv_sec += static_cast<time_t>(kLength_s);
    return end;
}

bool is_over() {
    pollfd file{kGoOn, POLLIN, 0};
    return poll(&file, 1, 0) == 1;
}

}  // namespace

// Exported: a thread may be stopped anywhere in it.
extern "C" __attribute__((visibility("default"), noinline, noclone)) double spin_calmly(long count) {
    double values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (long step = 0; step < count; ++step) {
        __asm__ volatile("");  // the compiler would call it once otherwise
        for (double& value : values) {
            value = value * 0.999999 + static_cast<double>(step) * 1e-9;
        }
    }
    double sum = 0;
    for (const double value : values) {
        sum += value;
    }
    return sum;
}

namespace {

void spin() {
    constexpr long kSteps = 3'000'000;
    const double expected = spin_calmly(kSteps);
    say_ready();
    while (!is_over()) {
        errno = EXDEV;
        const double found = spin_calmly(kSteps);
        CHECK_EQUAL(errno, EXDEV);
        CHECK(std::memcmp(&found, &expected, sizeof found) == 0);
    }
}

void be_many() {
    std::vector<std::thread> threads;
    sem_t end;
    sem_init(&end, 0, 0);
    for (int index = 0; index < 64; ++index) {
        threads.emplace_back([&end, index] {
            // Some threads of real programs take no signal at all.
            sigset_t all;
            sigfillset(&all);
            if (index % 2 == 0) {
                pthread_sigmask(SIG_SETMASK, &all, nullptr);
            }
            while (sem_wait(&end) != 0) {
                CHECK_EQUAL(errno, EINTR);
            }
            sigset_t now;
            pthread_sigmask(SIG_BLOCK, nullptr, &now);
            CHECK_EQUAL(sigismember(&now, SIGUSR1), index % 2 == 0 ? 1 : 0);
            CHECK_EQUAL(sigismember(&now, SIGSEGV), index % 2 == 0 ? 1 : 0);
        });
    }
    say_ready();
    char byte = 0;
    CHECK_EQUAL(read(kGoOn, &byte, 1), 1);
    for (std::size_t index = 0; index < threads.size(); ++index) {
        sem_post(&end);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

// Its timer ends no call of ours, and all its alarms come.
void take_alarms() {
    struct sigaction action{};
    action.sa_handler = [](int) { alarms = alarms + 1; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, nullptr);
    say_ready();
    while (!is_over()) {
        poll(nullptr, 0, 1);
    }
    CHECK(alarms > 10);
}

void wait_in(const std::string& way) {
    if (way == "sleep") {
        check_length([] {
            const timespec time = length();
            CHECK_EQUAL(nanosleep(&time, nullptr), 0);
        });
    } else if (way == "clock") {
        check_length([] {
            const timespec end = end_of_length(CLOCK_MONOTONIC);
            CHECK_EQUAL(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr), 0);
        });
    } else if (way == "poll") {
        check_length([] { CHECK_EQUAL(poll(nullptr, 0, static_cast<int>(kLength_s * 1000)), 0); });
    } else if (way == "masked poll") {
        sigset_t mask;
        sigfillset(&mask);
        check_length([&mask] {
            const timespec time = length();
            CHECK_EQUAL(ppoll(nullptr, 0, &time, &mask), 0);
        });
        CHECK_EQUAL(sigprocmask(SIG_BLOCK, nullptr, &mask), 0);
        CHECK_EQUAL(sigismember(&mask, SIGUSR1), 0);
    } else if (way == "futex") {
        sem_t never;
        sem_init(&never, 0, 0);
        check_length([&never] {
            const timespec end = end_of_length(CLOCK_REALTIME);
            while (sem_timedwait(&never, &end) != 0 && errno == EINTR) {
            }
            CHECK_EQUAL(errno, ETIMEDOUT);
        });
    } else if (way == "epoll") {
        const int file = epoll_create1(0);
        epoll_event event{};
        check_length([&] {
            // The kernel lets this one fail at every stop, as under any debugger; programs begin it again.
            const Clock::time_point begin = Clock::now();
            while (seconds_since(begin) < kLength_s) {
                const int left_ms = static_cast<int>((kLength_s - seconds_since(begin)) * 1000) + 1;
                const int count = epoll_wait(file, &event, 1, left_ms);
                CHECK(count == 0 || (count < 0 && errno == EINTR));
            }
        });
    } else if (way == "read") {
        say_ready();
        char byte = 0;
        CHECK_EQUAL(read(kGoOn, &byte, 1), 1);
        CHECK_EQUAL(byte, 'g');
    } else if (way == "spin") {
        spin();
    } else if (way == "many") {
        be_many();
    } else if (way == "alarms") {
        take_alarms();
    }
}

class Process {
public:
    explicit Process(const char* way) {
        int ready[2];
        int go_on[2];
        CHECK_EQUAL(pipe(ready), 0);
        CHECK_EQUAL(pipe(go_on), 0);
        number_ = fork();
        if (number_ == 0) {
            // Above the places that they go to.
            const int ready_end = dup2(ready[1], 10);
            const int go_on_end = dup2(go_on[0], 11);
            dup2(ready_end, kReady);
            dup2(go_on_end, kGoOn);
            for (int file = kGoOn + 1; file < 32; ++file) {
                close(file);
            }
            execl("/proc/self/exe", "test_remote_call", way, nullptr);
            _exit(127);
        }
        close(ready[1]);
        close(go_on[0]);
        go_on_ = go_on[1];
        char byte = 0;
        CHECK_EQUAL(read(ready[0], &byte, 1), 1);
        close(ready[0]);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process() {
        if (write(go_on_, "g", 1) != 1) {
            std::fprintf(stderr, "it has ended already\n");
        }
        close(go_on_);
        int status = 0;
        CHECK_EQUAL(waitpid(number_, &status, 0), number_);
        CHECK_EQUAL(status, 0);
    }
    pid_t number() const { return number_; }

private:
    pid_t number_;
    int go_on_;
};

Request request_for(pid_t process) {
    Request request;
    request.process = process;
    request.library = "libc.so.6";
    request.function = "atoi";
    request.argument = "42";
    request.calm_function = "spin_calmly";
    request.calm_library = "test_remote_call";
    return request;
}

void test_calls(const char* way) {
    std::fprintf(stderr, "%s\n", way);
    double longest_s = 0;
    Process process(way);
    int calls = 0;
    // An emulated machine makes fewer of them before the wait is over.
    for (const Clock::time_point begin = Clock::now(); calls < kCalls && seconds_since(begin) < kLength_s / 2;
         ++calls) {
        const Answer answer = load_and_call(request_for(process.number()));
        CHECK_EQUAL(static_cast<int>(answer.outcome), static_cast<int>(Outcome::kCalled));
        CHECK_EQUAL(answer.status, 42);
        longest_s = answer.stopped_s > longest_s ? answer.stopped_s : longest_s;
    }
    std::fprintf(stderr, "%d calls, stopped for %.2f ms at most\n", calls, longest_s * 1000);
}

bool may_not_trace() {
    const Process process("read");
    return load_and_call(request_for(process.number())).outcome == Outcome::kRefused;
}

void test_refusals() {
    Process process("read");
    Request request = request_for(process.number());
    request.function = "no_such_function";
    CHECK(load_and_call(request).outcome == Outcome::kNoFunction);
    request = request_for(process.number());
    request.library = "/no/such/library.so";
    CHECK(load_and_call(request).outcome == Outcome::kNotLoaded);
    // A call that fails: the process goes on.
    request = request_for(process.number());
    request.function = "abort";
    const Answer answer = load_and_call(request);
    CHECK(answer.outcome == Outcome::kBroken);
    CHECK_EQUAL(answer.status, SIGABRT);
    CHECK(load_and_call(request_for(process.number())).outcome == Outcome::kCalled);
    // One that stands still stays so, and is left alone.
    kill(process.number(), SIGSTOP);
    int status = 0;
    CHECK_EQUAL(waitpid(process.number(), &status, WUNTRACED), process.number());
    request = request_for(process.number());
    request.patience_s = 0.2;
    CHECK(load_and_call(request).outcome == Outcome::kNoMoment);
    kill(process.number(), SIGCONT);
    CHECK(load_and_call(request_for(process.number())).outcome == Outcome::kCalled);
    request.process = 1 << 22;
    CHECK(load_and_call(request).outcome == Outcome::kEnded);
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) {
        wait_in(words[1]);
        return 0;
    }
    if (may_not_trace()) {
        std::fprintf(stderr, "no process may be traced here\n");
        return 77;
    }
    for (const char* way :
         {"sleep", "clock", "poll", "masked poll", "futex", "epoll", "read", "spin", "many", "alarms"}) {
        test_calls(way);
    }
    test_refusals();
    return 0;
}
