// The stacks of threads that were created while samples were taken: how much of each is in memory.
//
// A stack grows as its thread runs, and no call tells of it. So the kernel is asked, now and then, for the pages of
// some of them in turn. Nothing here takes a lock or allocates. The table lies in ProcessState, which fork wipes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace msmemscope {

// Who made a sample; numbers of texts and stacks.
struct SampleOrigin {
    std::uint32_t name_id = 0;
    std::uint32_t python_stack_id = 0;
    std::uint32_t native_stack_id = 0;
};

// The stack of one thread, as it was last asked for.
struct ThreadStack {
    std::size_t slot;
    // Of the thread, as its samples have it: its pthread_t, which glibc puts at the upper end of the stack.
    std::uint64_t place;
    std::uint64_t known_bytes;
    SampleOrigin origin;
};

class ThreadStacks {
public:
    // Threads beyond them keep the size that they began with.
    static constexpr std::size_t kMost = 4096;

    // A thread comes. known_bytes: what its sample has.
    void add(std::uint64_t place, std::uint64_t most_bytes, std::uint64_t known_bytes,
             const SampleOrigin& origin) noexcept;
    // It goes.
    void remove(std::uint64_t place) noexcept;
    bool has(const ThreadStack& stack) const noexcept;

    // Asks the kernel for at most so many stacks, in turn. grew(stack, bytes) is called for each that has at least
    // kLeastGrowth more than is known. If it returns true, these bytes are known from then on. Only one thread asks at
    // a time: another one is turned away.
    template <typename Grew>
    void measure(std::size_t most, Grew grew) noexcept {
        if (is_measured_.exchange(true, std::memory_order_acquire)) {
            return;
        }
        const std::size_t end = end_.load(std::memory_order_acquire);
        for (std::size_t seen = 0; seen < end && most > 0; ++seen) {
            next_ = next_ + 1 < end ? next_ + 1 : 0;
            Entry& entry = entries_[next_];
            const std::uint64_t place = entry.place.load(std::memory_order_acquire);
            if (place <= kFilling) {
                continue;
            }
            --most;
            const std::uint64_t known = entry.known_bytes.load(std::memory_order_relaxed);
            const std::uint64_t bytes = resident_bytes(place, entry.most_bytes.load(std::memory_order_relaxed));
            const ThreadStack stack{next_, place, known, entry.origin()};
            if (bytes >= known + kLeastGrowth && has(stack) && grew(stack, bytes)) {
                entry.known_bytes.store(bytes, std::memory_order_relaxed);
            }
        }
        is_measured_.store(false, std::memory_order_release);
    }

private:
    static constexpr std::uint64_t kFilling = 1;
    static constexpr std::uint64_t kLeastGrowth = 64UL << 10U;

    struct Entry {
        std::atomic<std::uint64_t> place;  // 0: free
        std::atomic<std::uint64_t> most_bytes;
        std::atomic<std::uint64_t> known_bytes;
        std::atomic<std::uint32_t> name_id;
        std::atomic<std::uint32_t> python_stack_id;
        std::atomic<std::uint32_t> native_stack_id;

        SampleOrigin origin() const noexcept {
            return {name_id.load(std::memory_order_relaxed), python_stack_id.load(std::memory_order_relaxed),
                    native_stack_id.load(std::memory_order_relaxed)};
        }
    };

    // The pages below a place that are in memory.
    static std::uint64_t resident_bytes(std::uint64_t place, std::uint64_t most_bytes) noexcept;

    Entry entries_[kMost];
    std::atomic<std::size_t> end_;  // no entry from here on was ever used
    std::atomic<bool> is_measured_;
    std::size_t next_;
};

}  // namespace msmemscope
