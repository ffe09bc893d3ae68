#include "sources/ascend/kernel_launch/task_log.h"

#include <pthread.h>
#include <time.h>

#include "core/writer/bounded_lock.h"
#include "core/writer/keep_errno.h"
#include "interpose/patcher.h"
#include "sources/ascend/kernel_launch/kernel_reports.h"

namespace msmemscope::kernel_launch::task_log {
namespace {

constexpr unsigned kChannel = 50;
constexpr std::int32_t kCounter = 13;
constexpr std::int32_t kFrequencyKhz = 25;
constexpr std::uint64_t kUsualFrequencyKhz = 50000;

struct StartParameters {
    std::int32_t channel_type;  // 0: tasks
    std::uint32_t sample_period;
    std::uint32_t real_time;
    const void* user_data;
    std::uint32_t user_data_bytes;
};
static_assert(sizeof(StartParameters) == 32);

// Which tasks are logged: 1 for yes. Chips with the long format know the first nine words only.
struct StarsChoice {
    std::uint32_t tasks;
    std::uint32_t not_used[5];
    std::uint32_t thread_tasks;
    std::uint32_t also_not_used[4];
};
static_assert(sizeof(StarsChoice) == 44);
constexpr std::uint32_t kLongFormatChoiceBytes = 36;

struct Driver {
    int (*start)(unsigned device, unsigned channel, const StartParameters* parameters);
    int (*read)(unsigned device, unsigned channel, char* buffer, unsigned buffer_bytes);
    int (*stop)(unsigned device, unsigned channel);
    int (*information)(std::uint32_t device, std::int32_t module, std::int32_t what, std::int64_t* value);
};
Driver driver;

template <typename Function>
void find(Function& function, const char* name) noexcept {
    function = reinterpret_cast<Function>(find_function(name));
}

BoundedLock in_driver;
__attribute__((tls_model("initial-exec"))) __thread bool fork_keeps_out = false;

void keep_out_before_fork() noexcept {
    const KeepErrno keep_errno;
    fork_keeps_out = in_driver.acquire();
}

// In parent and child.
void let_in_after_fork() noexcept {
    if (fork_keeps_out) {
        in_driver.release();
    }
}

}  // namespace

std::uint64_t realtime_now() noexcept {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kSecond + static_cast<std::uint64_t>(now.tv_nsec);
}

bool find_driver() noexcept {
    const auto is_found = []() noexcept {
        return driver.start != nullptr && driver.read != nullptr && driver.stop != nullptr;
    };
    if (is_found()) {
        return true;  // and a thread may be reading
    }
    const BoundedLockGuard guard(in_driver);
    find(driver.start, "prof_drv_start");
    find(driver.read, "prof_channel_read");
    find(driver.stop, "prof_stop");
    find(driver.information, "halGetDeviceInfo");
    return is_found();
}

void keep_out_of_forks() noexcept {
    static bool is_done = false;
    if (!is_done) {
        is_done = pthread_atfork(&keep_out_before_fork, &let_in_after_fork, &let_in_after_fork) == 0;
    }
}

std::int32_t give_command(void* command, std::uint32_t bytes) noexcept {
    // The search for the function holds a lock of the loader's, which a child would find held as well.
    const BoundedLockGuard guard(in_driver);
    std::int32_t (*give)(void*, std::uint32_t) = nullptr;
    find(give, "profSetProfCommand");
    return give == nullptr ? kIsMissing : give(command, bytes);
}

int start(int device) noexcept {
    const BoundedLockGuard guard(in_driver);
    if (!guard) {
        return kIsHeld;
    }
    StarsChoice choice{};
    choice.tasks = 1;
    choice.thread_tasks = 1;
    const StartParameters parameters{
        0, 20, 1, &choice,
        log_format() == LogFormat::kLong ? kLongFormatChoiceBytes : static_cast<std::uint32_t>(sizeof(choice))};
    return driver.start(static_cast<unsigned>(device), kChannel, &parameters);
}

int read(int device, char* buffer, std::size_t buffer_bytes) noexcept {
    const BoundedLockGuard guard(in_driver);
    return guard ? driver.read(static_cast<unsigned>(device), kChannel, buffer, static_cast<unsigned>(buffer_bytes))
                 : 0;
}

void stop(int device) noexcept {
    const BoundedLockGuard guard(in_driver);
    if (guard) {
        driver.stop(static_cast<unsigned>(device), kChannel);
    }
}

bool read_clock(int device, ClockReading& reading) noexcept {
    const BoundedLockGuard guard(in_driver);
    if (!guard || driver.information == nullptr) {
        return false;
    }
    const auto number = static_cast<std::uint32_t>(device);
    std::uint64_t least = UINT64_MAX;
    for (int attempt = 0; attempt < 5; ++attempt) {
        std::int64_t counter = 0;
        const std::uint64_t before = realtime_now();
        if (driver.information(number, 0, kCounter, &counter) != 0) {
            return false;
        }
        const std::uint64_t took = realtime_now() - before;
        if (took < least) {
            least = took;
            reading.counter = static_cast<std::uint64_t>(counter);
            reading.realtime_ns = before + took / 2;
        }
    }
    std::int64_t frequency = 0;
    const bool is_known = driver.information(number, 0, kFrequencyKhz, &frequency) == 0;
    reading.frequency_khz = is_known && frequency > 0 ? static_cast<std::uint64_t>(frequency) : kUsualFrequencyKhz;
    return true;
}

}  // namespace msmemscope::kernel_launch::task_log
