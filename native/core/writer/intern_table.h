// Content -> id, once per distinct content, without locks.
//
// The table holds 64-bit hashes only. The id is the slot's number plus one. So the thread that adds an entry and the
// threads that meet it know the id at the same moment. Nobody waits. The thread that added the entry writes the content
// into the event log as a definition.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace msmemscope {

class InternTable {
public:
    static constexpr std::size_t kSlots = 1UL << 20U;
    static constexpr unsigned kLongestProbe = 128;

    struct Result {
        std::uint32_t id;  // 0: the table is full around this hash
        bool added;
    };

    // Reserves the memory; false if refused.
    bool create() noexcept;

    // Ids start over, as after fork.
    void reset() noexcept { slots_ = nullptr; }

    Result intern(std::uint64_t hash) noexcept {
        if (slots_ == nullptr) {
            return Result{0, false};
        }
        hash += hash == 0 ? 1 : 0;
        for (unsigned probe = 0; probe < kLongestProbe; ++probe) {
            const std::size_t slot = (hash + probe) & (kSlots - 1);
            std::uint64_t present = slots_[slot].load(std::memory_order_relaxed);
            if (present == hash) {
                return Result{static_cast<std::uint32_t>(slot) + 1, false};
            }
            if (present == 0) {
                if (slots_[slot].compare_exchange_strong(present, hash, std::memory_order_relaxed)) {
                    return Result{static_cast<std::uint32_t>(slot) + 1, true};
                }
                if (present == hash) {
                    return Result{static_cast<std::uint32_t>(slot) + 1, false};
                }
            }
        }
        return Result{0, false};
    }

    // Bytes in memory now, and with every slot in use.
    std::size_t memory_bytes() const noexcept;
    static constexpr std::size_t memory_limit_bytes() noexcept { return kSlots * sizeof(std::uint64_t); }

private:
    std::atomic<std::uint64_t>* slots_;
};

}  // namespace msmemscope
