// A function of a library that the program may have loaded, by its name. Of a vendor's two libraries the driver's is
// the better choice: a runtime can keep an error of ours as the program's last one.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/patcher.h"

namespace msmemscope {

template <typename Function>
class LoadedFunction {
public:
    explicit constexpr LoadedFunction(const char* name) : name_(name) {}
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

}  // namespace msmemscope
