// Memory of a driver, whoever makes the device: calls that are made of other calls, ends that can fail, and pinned
// memory of the host.
#pragma once

#include <cstdint>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "sources/memory_usage.h"

namespace msmemscope {

// A function of a driver may be made of another: the outermost call is the one that the program knows.
class DriverCall {
public:
    DriverCall() noexcept { ++under_way; }
    ~DriverCall() { --under_way; }
    DriverCall(const DriverCall&) = delete;
    DriverCall& operator=(const DriverCall&) = delete;
    static bool is_outermost() noexcept { return under_way == 1; }

private:
    __attribute__((tls_model("initial-exec"))) static __thread unsigned under_way;
};

namespace driver_memory {

// Physical memory of a driver of this process has an address in it: it counts as resident memory of the host if the
// device is emulated. Asked once.
void note_emulated(const void* address) noexcept;

// Pinned memory is the host's, and taken for a device: it is observed with either.
void note_pinned(const void* address, std::uint64_t bytes, const CallSite& site) noexcept;

// Memory that the program had already is pinned now. A CPU tensor, or pinned memory, is recorded already.
void note_registered(const void* address, std::uint64_t bytes, const CallSite& site) noexcept;

// The end of a block of a driver. It gets its place among the records before the real call. Right after that call
// another thread may be given the address.
class End {
public:
    End(std::uint64_t address, const CallSite& site) noexcept
        : is_known_(recorder::begin_free(format::Pool::kHal, address, site, ending_)) {}

    // To be called after the real call. record_usage: writes the figures of the block's device that hold without it, in
    // front of its FREE.
    void finish(bool has_succeeded, void (*record_usage)(format::Device device, const RecordPlace& place)) noexcept;

private:
    recorder::EndingBlock ending_{};
    bool is_known_;
};

}  // namespace driver_memory
}  // namespace msmemscope
