// The questions that a kind of device answers, for code that knows no vendor. Each source that has devices offers one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

struct MemoryBytes {
    std::uint64_t total;
    std::uint64_t free;
};

struct PoolBytes {
    std::uint64_t reserved;
    std::uint64_t allocated;
};

// A limit that the kernel sets this process.
struct MemoryLimit {
    const char* name;  // RLIMIT_AS
    std::uint64_t bytes;
    std::uint64_t used;
};

struct DeviceSupport {
    bool (*has_device)(format::Device device) noexcept;
    // Makes memory_of ready. To be called outside of any scope.
    void (*prepare_memory)() noexcept;
    // Memory of the device; false if that is not known. Does not begin to use the device.
    bool (*memory_of)(const RecordingScope& scope, format::Device device, MemoryBytes& memory) noexcept;
    // The bytes that the framework's pool holds on the device; false if no framework has reported any.
    bool (*pool_of)(format::Device device, PoolBytes& bytes) noexcept;
    // The limit of this process that leaves the least room; false without one. Null where the kernel sets none.
    bool (*limit_of)(MemoryLimit& limit) noexcept;
    // From device memory into host memory; null where all of it is the host's.
    bool (*copy_to_host)(void* target, std::uint64_t source, std::size_t bytes) noexcept;
    // Writes the current figures that hold until they change (RESERVED, DEVICE_USAGE). Only devices whose figures have
    // been written before get them. Called when collection begins.
    void (*record_figures)(const RecordingScope& scope) noexcept;
    // Waits until the calling thread's device has done all it was given. Null where nothing runs by itself.
    void (*synchronise)() noexcept;
    // Whether one may wait for the device now, and copy from it. Null: always.
    bool (*can_be_read)() noexcept;
};

// Every kind. Defined where the sources are listed (sources/sources.cpp).
struct DeviceSupports {
    const DeviceSupport* const* supports;
    std::size_t count;

    // Null for a device of a kind that no source has.
    const DeviceSupport* of(format::Device device) const noexcept {
        for (std::size_t number = 0; number < count; ++number) {
            if (supports[number]->has_device(device)) {
                return supports[number];
            }
        }
        return nullptr;
    }
};
extern const DeviceSupports kDeviceSupports;

}  // namespace msmemscope
