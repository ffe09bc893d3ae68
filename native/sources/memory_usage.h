// Figures of a device that hold from their record on, until the next one: written when they have changed.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

inline constexpr std::uint64_t kUnknownUsage = ~std::uint64_t{0};

// The last figures that were written about a device, and their epoch.
struct WrittenUsage {
    std::atomic<std::uint64_t> epoch;
    std::atomic<std::uint64_t> device_bytes;
    std::atomic<std::uint64_t> process_bytes;
};

// Where a record stands: a number that was reserved, and a time. Zeros: behind all others, now.
struct RecordPlace {
    std::uint64_t sequence = 0;
    std::uint64_t timestamp_ns = 0;
};

// Writes a DEVICE_USAGE record, unless neither figure is known or both are as they were.
void append_usage(const RecordingScope& scope, format::Device device, WrittenUsage& last, std::uint64_t device_bytes,
                  std::uint64_t process_bytes, const RecordPlace& place = {}) noexcept;

}  // namespace msmemscope
