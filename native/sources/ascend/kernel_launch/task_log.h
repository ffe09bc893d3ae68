// The driver's log of tasks (STARS) and the device's clock, as the driver gives them.
//
// Driver and runtime have locks of their own, and a child that is forked while another thread holds one finds it held
// for ever. So whoever calls them from here holds a lock that a fork waits for. Where a thread does not come back from
// the driver, or did not before a fork, all of it does nothing and says so.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "sources/ascend/kernel_launch/task_records.h"

namespace msmemscope::kernel_launch::task_log {

inline constexpr std::uint64_t kSecond = 1000000000ULL;
inline constexpr int kIsHeld = INT_MIN;
inline constexpr int kIsMissing = INT_MIN + 1;

std::uint64_t realtime_now() noexcept;

// False where the driver has no such log, or is not loaded.
bool find_driver() noexcept;

// From now on forks wait until no thread is in the driver.
void keep_out_of_forks() noexcept;

// Gives the runtime's profiler a command of so many bytes: 0, an error of it, or kIsMissing. Where a thread does not
// come back from the driver it is given all the same: names of kernels need no log.
std::int32_t give_command(void* command, std::uint32_t bytes) noexcept;

// Begins the log of a device (the driver's number). 0, an error of the driver, or kIsHeld.
int start(int device) noexcept;

// Bytes read; 0 or less if there was nothing.
int read(int device, char* buffer, std::size_t buffer_bytes) noexcept;

// Ends the log of a device. Tasks that were logged before can still be read.
void stop(int device) noexcept;

// Of several readings the one that took least time. False if the clock cannot be read.
bool read_clock(int device, ClockReading& reading) noexcept;

}  // namespace msmemscope::kernel_launch::task_log
