// Memory has run out: the records of an allocation that failed for lack of memory.
//
// There are two records, each with both call stacks, whatever the settings say:
// - a SNAPSHOT named OOM_Snapshot says what is known here of the device and of the framework's pool;
// - an OOM says what was asked for.
//
// They are written inside the failing call, where the program may hold locks of its allocator and no GIL. So nothing
// here waits for another thread, runs Python, or allocates with the program's allocator.
//
// After the first failure, torch_npu gives its cache back and tries again. So one error of the program is usually two
// failures: one before the release, and one after it.
#pragma once

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope::out_of_memory {

struct Failure {
    const char* function;  // that failed: "halMemAlloc"
    format::Device device;
    std::uint64_t size_bytes;
    std::uint64_t flag;  // as the function was given it; 0 if it has none
};

// Writes both records if allocations or frees are collected now and the device is observed. To be called after the real
// function, outside of any scope. site: of the function that failed.
void record(const Failure& failure, const CallSite& site) noexcept;

// An allocation of the same kind has succeeded on this thread.
void forget() noexcept;

// An allocator above the driver gives an allocation up. False: no record of the driver tells of it, since the last time
// that one gave up on this thread. Then the allocator's source calls record(), and this function again.
bool give_up() noexcept;

// Whether the calling thread's latest allocation of the driver failed, and record() was called. By this an observer
// above recognises a limit of the framework's own: then the driver is never asked.
__attribute__((visibility("default"))) bool just_recorded() noexcept;

// How many failures were recorded in this process: here, and by an observer above, which counts its own.
__attribute__((visibility("default"))) std::uint64_t recorded_failures() noexcept;
__attribute__((visibility("default"))) void count_failure() noexcept;

}  // namespace msmemscope::out_of_memory
