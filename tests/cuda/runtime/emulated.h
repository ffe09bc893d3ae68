// What the sources of the emulated runtime share: see cudart.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define DOES_NOTHING(name) \
    EXPORTED int name() { return 0; }

using Address = unsigned long long;

constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureInvalidated = 901;
constexpr int kMostDevices = 16;

struct Block {
    std::size_t bytes;
    int device;  // -1: memory of the host
};

// Everything that is allocated, by its address; physical memory by its handle.
struct State {
    std::mutex lock;
    std::map<std::uint64_t, Block> blocks;
    std::map<std::uint64_t, Block> handles;
    std::size_t used[kMostDevices] = {};
    std::size_t used_by_others[kMostDevices] = {};
    bool has_context[kMostDevices] = {};
    std::uint64_t next_handle = 0x7000000000;  // no address of this process
};
State& state();

// Keeps a status as the last error of the thread, as the runtime does, and returns it.
int failed(int status);
// Of a call that waits for the device: an error while a stream is being captured.
int synchronising();

// Handles of streams, events and the like: never null, never alike.
inline void* new_handle() {
    static std::atomic<std::uint64_t> next{0x1000};
    return reinterpret_cast<void*>(next.fetch_add(16));
}

EXPORTED int cudaGetDevice(int* device);
