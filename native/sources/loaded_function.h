// A function of a library that the program may have loaded, by its name. Of a vendor's two libraries the driver's is
// the better choice: a runtime can keep an error of ours as the program's last one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/patcher.h"

namespace msmemscope {

// Names: versions of the library may have the function under different names. The first one that is there is taken.
template <typename Function, std::size_t Names = 1>
class LoadedFunction {
public:
    template <typename... Name>
    explicit constexpr LoadedFunction(Name... names) : names_{names...} {
        static_assert(sizeof...(names) == Names);
    }

    // Null if no loaded library has it. Then it is searched for ever more rarely, because that is slow.
    Function* get() noexcept {
        Function* const function = function_.load(std::memory_order_relaxed);
        return __builtin_expect(function != nullptr, 1) ? function : search();
    }

private:
    // Only a search that has ended is a miss: threads that come while another one searches need the function, too.
    Function* search() noexcept {
        std::uint32_t misses = misses_.load(std::memory_order_relaxed);
        if (!is_power_of_two(misses)) {
            misses = misses_.fetch_add(1, std::memory_order_relaxed) + 1;
            if (!is_power_of_two(misses)) {
                return nullptr;
            }
        }
        for (const char* const name : names_) {
            auto* const function = reinterpret_cast<Function*>(find_function(name));
            if (function != nullptr) {
                function_.store(function, std::memory_order_relaxed);
                return function;
            }
        }
        misses_.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
    }

    // Or zero.
    static constexpr bool is_power_of_two(std::uint32_t number) noexcept { return (number & (number - 1)) == 0; }

    const char* names_[Names];
    std::atomic<Function*> function_{nullptr};
    std::atomic<std::uint32_t> misses_{0};
};

}  // namespace msmemscope
