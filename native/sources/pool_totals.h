// The bytes that a framework's pool holds on each device of a kind. The framework tells them with its blocks; they are
// written when they have changed.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

class PoolTotals {
public:
    constexpr PoolTotals(format::Pool pool, format::DeviceKind kind) : pool_(pool), kind_(kind) {}

    // index: of the device, as the driver has it; 0 to one less than format::kDevicesPerKind.
    void set(int index, std::int64_t bytes) noexcept { reserved_[index].store(bytes, std::memory_order_relaxed); }
    void add(int index, std::int64_t bytes) noexcept { reserved_[index].fetch_add(bytes, std::memory_order_relaxed); }
    std::int64_t get(int index) const noexcept { return reserved_[index].load(std::memory_order_relaxed); }

    // Writes the bytes of a device if they are not in the log yet. Outside of any scope.
    void report(int index) noexcept;

    // Writes the bytes of each device that is observed. It leaves out a device if they are 0 and were not written
    // before in this log.
    void write_again(const RecordingScope& scope) noexcept;

private:
    void write(const RecordingScope& scope, int index, std::int64_t bytes) noexcept;

    format::Pool pool_;
    format::DeviceKind kind_;
    std::atomic<std::int64_t> reserved_[format::kDevicesPerKind] = {};
    // As last written, and the recorder's epoch then.
    std::atomic<std::int64_t> written_[format::kDevicesPerKind] = {};
    std::atomic<std::uint64_t> written_epoch_[format::kDevicesPerKind] = {};
};

}  // namespace msmemscope
