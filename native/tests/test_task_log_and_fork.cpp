// A child that is forked while the log of tasks is read opens its own: no thread of ours holds the driver across a
// fork.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/writer/recorder.h"
#include "sources/ascend/kernel_launch/task_channel.h"
#include "tests/check.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

constexpr int kForks = 20;
constexpr unsigned kMostSeconds = 5;  // of a child

std::mutex driver;  // as drivers have them: a child finds it as it was
std::atomic<int> reads{0};

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

DRIVER int profSetProfCommand(void*, std::uint32_t) { return 0; }

DRIVER int prof_drv_start(unsigned, unsigned, void*) {
    const std::lock_guard<std::mutex> guard(driver);
    return 0;
}

DRIVER int prof_channel_read(unsigned, unsigned, char*, unsigned) {
    const std::lock_guard<std::mutex> guard(driver);
    ++reads;
    pause_ms(10);
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

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("level=kernel\ndevices=npu\n").c_str()));
    kernel_launch::open_task_channel(0);
    for (int number = 0; number < kForks; ++number) {
        const int before = reads.load();
        while (reads.load() == before) {
            pause_ms(1);  // the reader is in the driver about now
        }
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(kMostSeconds);
            {
                const RecordingScope made_ready(false);
            }
            const int reads_of_parent = reads.load();
            kernel_launch::open_task_channel(0);
            while (reads.load() == reads_of_parent) {
                pause_ms(1);  // by a thread of its own
            }
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        CHECK_EQUAL(WEXITSTATUS(status), 0);
    }
    const int before = reads.load();
    while (reads.load() == before) {
        pause_ms(1);  // the parent's is read on
    }
    kernel_launch::close_task_channels();
    recorder::close();
    return 0;
}
