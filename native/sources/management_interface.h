// The management interface of a vendor (DCMI, NVML), which tells what devices use: loaded when it is first needed.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

template <typename Function>
bool resolve(void* library, const char* name, Function*& function) noexcept {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    return function != nullptr;
}

class ManagementInterface {
public:
    // load: loads the interface, and returns null, or why it cannot be had.
    // observed, unobserved: keys of the facts that say which of both it is.
    constexpr ManagementInterface(const char* (*load)() noexcept, const char* observed, const char* unobserved)
        : load_(load), observed_(observed), unobserved_(unobserved) {}

    // Loads the interface in each epoch once: a forked child begins anew. Sets loaded if that was now. False also while
    // another thread is at it: a figure is missing then, and nobody waits. Inside a scope, which keeps allocations of
    // the interface out of the program's events.
    bool is_ready(std::uint64_t epoch, bool& loaded) noexcept {
        std::uint64_t seen = progress_.load(std::memory_order_acquire);
        if (seen >> 2U == epoch) {
            return (seen & 3U) == kReady;
        }
        if (!progress_.compare_exchange_strong(seen, (epoch << 2U) | kAtWork, std::memory_order_acq_rel)) {
            return false;
        }
        absence_ = load_();
        loaded = true;
        progress_.store((epoch << 2U) | (absence_ == nullptr ? kReady : kAbsent), std::memory_order_release);
        return absence_ == nullptr;
    }

    bool was_loaded(std::uint64_t epoch) const noexcept {
        return progress_.load(std::memory_order_acquire) == ((epoch << 2U) | kReady);
    }

    // Says what came of loading it. Outside of any scope: facts are written in a scope of their own.
    // function: any of the interface.
    void note(const void* function, const char* library_name) const noexcept {
        if (absence_ != nullptr) {
            recorder::note_fact(unobserved_, absence_);
            return;
        }
        Dl_info library{};
        recorder::note_fact(observed_, dladdr(function, &library) != 0 ? library.dli_fname : library_name);
    }

private:
    enum Phase : std::uint64_t { kAtWork = 1, kReady = 2, kAbsent = 3 };

    const char* (*load_)() noexcept;
    const char* observed_;
    const char* unobserved_;
    // The epoch in which the phase was reached, and the phase in the lowest two bits.
    std::atomic<std::uint64_t> progress_{0};
    const char* absence_ = nullptr;
};

}  // namespace msmemscope
