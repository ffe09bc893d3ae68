// How many texts with a path may be recorded.
//
// The number of the execution is part of a path, so each execution of an operator makes new texts. A long run would
// fill the table of strings, which has room for a million. Then no further name of anything could be recorded. So paths
// get only a share of the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/writer/intern_table.h"

namespace msmemscope::atb {

class PathBudget {
public:
    static constexpr std::uint32_t kMostTexts = InternTable::kSlots / 2;

    // Whether a text of this hash may be recorded. Texts that were met lately are counted once. The counts begin anew
    // with the table, which is made again in a forked child.
    bool admits(std::uint64_t hash, std::uint64_t epoch) noexcept {
        if (epoch_.load(std::memory_order_relaxed) != epoch) {
            epoch_.store(epoch, std::memory_order_relaxed);
            texts_.store(0, std::memory_order_relaxed);
            for (std::atomic<std::uint64_t>& recent : recent_) {
                recent.store(0, std::memory_order_relaxed);
            }
        }
        std::atomic<std::uint64_t>& recent = recent_[hash % kRecent];
        if (recent.load(std::memory_order_relaxed) == hash) {
            return true;
        }
        if (texts_.load(std::memory_order_relaxed) >= kMostTexts) {
            return false;
        }
        texts_.fetch_add(1, std::memory_order_relaxed);
        recent.store(hash, std::memory_order_relaxed);
        return true;
    }

private:
    static constexpr std::size_t kRecent = 1024;

    std::atomic<std::uint64_t> epoch_{0};
    std::atomic<std::uint32_t> texts_{0};
    std::atomic<std::uint64_t> recent_[kRecent] = {};
};

}  // namespace msmemscope::atb
