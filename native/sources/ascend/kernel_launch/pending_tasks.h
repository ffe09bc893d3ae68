// Kernels that were launched and that the device has not reported as ended.
//
// Lock-free and bounded: launching threads put tasks in, the reader of the device's log takes them out. A task that
// finds its places taken by others that never ended (their records were lost) replaces one of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace msmemscope::kernel_launch {

// The device's log may not tell streams: then the key has none.
struct TaskKey {
    std::uint16_t device;
    bool has_stream;
    std::uint16_t stream;
    std::uint16_t task;
};

struct PendingTask {
    std::uint32_t name_id;
    std::uint16_t stream;
};

class PendingTasks {
public:
    static constexpr std::size_t kCapacity = 1U << 15U;

    void put(const TaskKey& key, const PendingTask& task) noexcept;
    bool find(const TaskKey& key, PendingTask& task) const noexcept;
    // Takes the task out. False if it is not there.
    bool take(const TaskKey& key, PendingTask& task) noexcept;
    // Forgets all; nobody else may use it meanwhile.
    void clear() noexcept;

private:
    struct Entry {
        std::atomic<std::uint64_t> key;  // 0: free, 1: being written
        std::atomic<std::uint64_t> task;
    };
    static constexpr std::size_t kPlaces = 8;

    static std::uint64_t number_of(const TaskKey& key) noexcept;
    std::size_t place_of(std::uint64_t number, std::size_t probe) const noexcept;
    static void write(Entry& entry, std::uint64_t number, const PendingTask& task) noexcept;

    Entry entries_[kCapacity];
};

}  // namespace msmemscope::kernel_launch
