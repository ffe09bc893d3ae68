// The part of the user's configuration that the core needs.
//
// It arrives as text, in lines of key=value, through the environment or from Python.
// src/msmemscope/configuration/settings.py writes it. The whole text is kept, because every line is also recorded as a
// fact in the event log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope {

inline constexpr const char* kSettingsVariable = "MSMEMSCOPE_SETTINGS";

// Bits of Settings::events.
enum EventSelection : std::uint32_t {
    kSelectAlloc = 1U << 0U,
    kSelectFree = 1U << 1U,
    kSelectLaunch = 1U << 2U,
    kSelectAccess = 1U << 3U,
    kSelectTraceback = 1U << 4U,
    kSelectAllocator = 1U << 5U,
};

// Whether the host memory of the whole process is sampled. kUnsaid: by settings that only follow blocks.
enum class HostSampling : std::uint8_t { kUnsaid, kSampled, kAll, kOff };

inline constexpr std::uint32_t kMaximumStackDepth = 1000;

// Which devices are observed.
struct DeviceSelection {
    static constexpr std::size_t kMostNamed = 64;

    bool cpu;
    std::uint8_t whole_kinds;  // a bit for each kind that is observed whatever the index
    std::uint8_t kinds;        // and for each kind with some observed device
    std::size_t named_count;
    format::Device named[kMostNamed];

    bool has(format::Device device) const noexcept {
        if (device < 0) {
            return device == format::kDeviceCpu && cpu;
        }
        return ((whole_kinds >> static_cast<unsigned>(device / format::kDevicesPerKind)) & 1U) != 0 || names(device);
    }
    bool has_some(format::DeviceKind kind) const noexcept { return ((kinds >> static_cast<unsigned>(kind)) & 1U) != 0; }

private:
    bool names(format::Device device) const noexcept {
        for (std::size_t place = 0; place < named_count; ++place) {
            if (named[place] == device) {
                return true;
            }
        }
        return false;
    }
};

struct Settings {
    static constexpr std::size_t kTextCapacity = 24576;

    char text[kTextCapacity];
    std::size_t text_bytes;
    // Absolute path of the output root, and of the running launch's directory ("" if none).
    char output[4097];
    char launch_directory[4097];
    std::uint64_t session;
    std::uint32_t events;
    std::uint32_t python_stack_depth;
    std::uint32_t native_stack_depth;
    // Whether every event that can have a Python stack takes one; otherwise allocations alone do, for
    // the summary.
    bool write_python_stack;
    std::uint64_t maximum_size_bytes;
    // Whether warnings are left out of stderr.
    bool prints_errors_alone;
    // How many of the latest and of the largest blocks are asked for where memory runs out.
    std::uint32_t oom_top;
    // Seconds east of Greenwich, for the folder's name: the C library's own conversion takes locks.
    std::int64_t utc_offset_seconds;
    bool collect_immediately;
    bool first_step_selected;
    // The steps to collect; none means all.
    static constexpr std::size_t kMostSteps = 8;
    std::uint32_t steps[kMostSteps];
    std::uint32_t step_count;
    DeviceSelection devices;
    // --watch: names of the first and last operator of the window ("" for none), the number of the output (-1: all).
    static constexpr std::size_t kLongestWatchName = 255;
    char watch_start[kLongestWatchName + 1];
    char watch_end[kLongestWatchName + 1];
    std::int32_t watch_output;
    bool watch_full_content;
    bool watch_auto;
    bool watch_crc64;  // checksums as older tools have them
    std::uint64_t watch_budget_bytes;
    std::uint64_t watch_max_size_bytes;
    bool collect_kernels;    // level kernel
    bool collect_operators;  // level op
    HostSampling host_sampling;
    // One of so many bytes is sampled on average; 0: the usual number.
    std::uint64_t host_sample_bytes;

    bool observes(format::Device device) const noexcept { return devices.has(device); }

    // Reads the text; returns false and leaves *this unchanged if it does not fit or names no output.
    bool parse(const char* settings_text) noexcept;
};

}  // namespace msmemscope
