// CUDA devices: numbers of the runtime as devices of events, and functions of its libraries that the program has
// loaded.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/writer/recorder.h"
#include "interpose/patcher.h"

namespace msmemscope::cuda {

constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY

// Functions of libraries that the program may have loaded. Where there is a choice they are the driver's: the runtime
// keeps an error of ours as the program's last one.
template <typename Function>
class Known {
public:
    explicit constexpr Known(const char* name) : name_(name) {}
    // Null if no loaded library has it. Then it is searched for ever more rarely, because that is slow.
    Function* get() noexcept {
        Function* function = function_.load(std::memory_order_relaxed);
        if (__builtin_expect(function != nullptr, 1)) {
            return function;
        }
        const std::uint32_t misses = misses_.fetch_add(1, std::memory_order_relaxed);
        if ((misses & (misses - 1)) == 0) {
            function = reinterpret_cast<Function*>(find_function(name_));
            function_.store(function, std::memory_order_relaxed);
        }
        return function;
    }

private:
    const char* name_;
    std::atomic<Function*> function_{nullptr};
    std::atomic<std::uint32_t> misses_{0};
};

// The device that a number of the runtime means: CUDA_VISIBLE_DEVICES="4,5" makes device 0 of a program device 4. Where
// the variable lists names, numbers stay as they are.
format::Device device_of_runtime(int number) noexcept;

// The runtime's number of the calling thread's device, -1 if it is not known. Does not begin to use a device.
int current_device() noexcept;

}  // namespace msmemscope::cuda
