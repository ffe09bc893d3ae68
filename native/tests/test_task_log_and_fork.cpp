// A child may be forked while the log of tasks is read or opened. It opens a log of its own, because no thread of ours
// holds the driver or the runtime across a fork. If a thread does not come back from the driver, neither parent nor
// child waits for it for long.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "core/writer/recorder.h"
#include "sources/ascend/kernel_launch/task_channel.h"
#include "tests/check.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

constexpr int kForks = 20;
constexpr unsigned kMostSeconds = 60;  // of a child

std::mutex driver;  // as drivers have them: a child finds it as it was
std::mutex runtime;
std::atomic<int> commands{0};  // that the runtime has begun to take
std::atomic<int> reads{0};
std::atomic<bool> hangs{false};  // whoever reads does not come back

void pause_ms(long milliseconds) {
    const timespec pause{0, milliseconds * 1000000L};
    nanosleep(&pause, nullptr);
}

}  // namespace

#if defined(__SANITIZE_THREAD__)
// The reader is a second thread at the fork, and the child starts one of its own.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

#define DRIVER extern "C" __attribute__((visibility("default")))

DRIVER int profSetProfCommand(void*, std::uint32_t) {
    const std::lock_guard<std::mutex> guard(runtime);
    ++commands;
    pause_ms(20);
    return 0;
}

DRIVER int prof_drv_start(unsigned, unsigned, void*) {
    const std::lock_guard<std::mutex> guard(driver);
    return 0;
}

DRIVER int prof_channel_read(unsigned, unsigned, char*, unsigned) {
    const std::lock_guard<std::mutex> guard(driver);
    do {
        ++reads;
        pause_ms(10);
    } while (hangs.load());
    return 0;
}

DRIVER int prof_stop(unsigned, unsigned) {
    const std::lock_guard<std::mutex> guard(driver);
    return 0;
}

DRIVER int halGetDeviceInfo(std::uint32_t, std::int32_t, std::int32_t, std::int64_t* value) {
    const std::lock_guard<std::mutex> guard(driver);
    *value = 1;
    return 0;
}

namespace {

void wait_for_a_read() {
    const int before = reads.load();
    while (reads.load() == before) {
        pause_ms(1);
    }
}

template <typename Action>
void in_a_child(Action action) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(kMostSeconds);
        {
            const RecordingScope made_ready(false);
        }
        action();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("level=kernel\ndevices=npu\n").c_str()));
    kernel_launch::open_task_channel(0);
    for (int number = 0; number < kForks; ++number) {
        wait_for_a_read();  // the reader is in the driver about now
        in_a_child([] {
            kernel_launch::open_task_channel(0);
            wait_for_a_read();  // by a thread of its own
        });
    }
    wait_for_a_read();  // the parent's is read on
    for (int device = 1; device <= kForks; ++device) {
        const int before = commands.load();
        std::thread opener([device] { kernel_launch::open_task_channel(device); });
        while (commands.load() == before) {
            pause_ms(1);  // the other thread is in the runtime about now
        }
        in_a_child([] { kernel_launch::open_task_channel(0); });
        opener.join();
    }
    // Where the reader does not come back, a fork does, and the child keeps away from the driver.
    hangs.store(true);
    wait_for_a_read();
    in_a_child([] {
        const int reads_of_parent = reads.load();
        kernel_launch::open_task_channel(0);
        pause_ms(100);
        CHECK_EQUAL(reads.load(), reads_of_parent);
    });
    hangs.store(false);
    wait_for_a_read();
    kernel_launch::close_task_channels();
    recorder::close();
    return 0;
}
