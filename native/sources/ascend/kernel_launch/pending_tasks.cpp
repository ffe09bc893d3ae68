#include "sources/ascend/kernel_launch/pending_tasks.h"

namespace msmemscope::kernel_launch {
namespace {

constexpr std::uint64_t kFree = 0;
constexpr std::uint64_t kBusy = 1;

PendingTask unpacked(std::uint64_t packed) noexcept {
    return {static_cast<std::uint32_t>(packed >> 32U), static_cast<std::uint16_t>(packed)};
}

}  // namespace

std::uint64_t PendingTasks::number_of(const TaskKey& key) noexcept {
    const std::uint64_t stream = key.has_stream ? key.stream : 0U;
    return std::uint64_t{1} << 63U | static_cast<std::uint64_t>(key.device) << 32U | stream << 16U | key.task;
}

// Tasks of a stream are numbered in a row. The places of one task lie far apart, so a busy stream does not fill all of
// them.
std::size_t PendingTasks::place_of(std::uint64_t number, std::size_t probe) const noexcept {
    const std::uint64_t stream = number >> 16U & 0xffffffU;
    return (number + stream * 0x9e3779b1U + probe * (kCapacity / kPlaces)) % kCapacity;
}

void PendingTasks::write(Entry& entry, std::uint64_t number, const PendingTask& task) noexcept {
    entry.task.store(static_cast<std::uint64_t>(task.name_id) << 32U | task.stream, std::memory_order_relaxed);
    entry.key.store(number, std::memory_order_release);
}

void PendingTasks::put(const TaskKey& key, const PendingTask& task) noexcept {
    const std::uint64_t number = number_of(key);
    // The same number again: the task that had it is long over.
    for (std::size_t probe = 0; probe < kPlaces; ++probe) {
        Entry& entry = entries_[place_of(number, probe)];
        std::uint64_t expected = number;
        if (entry.key.load(std::memory_order_relaxed) == number &&
            entry.key.compare_exchange_strong(expected, kBusy, std::memory_order_acq_rel)) {
            write(entry, number, task);
            return;
        }
    }
    for (std::size_t probe = 0; probe < kPlaces; ++probe) {
        Entry& entry = entries_[place_of(number, probe)];
        std::uint64_t expected = kFree;
        if (entry.key.load(std::memory_order_relaxed) == kFree &&
            entry.key.compare_exchange_strong(expected, kBusy, std::memory_order_acq_rel)) {
            write(entry, number, task);
            return;
        }
    }
    for (std::size_t probe = 0; probe < kPlaces; ++probe) {
        Entry& entry = entries_[place_of(number, probe)];
        std::uint64_t other = entry.key.load(std::memory_order_relaxed);
        if (other != kBusy && entry.key.compare_exchange_strong(other, kBusy, std::memory_order_acq_rel)) {
            write(entry, number, task);
            return;
        }
    }
}

bool PendingTasks::find(const TaskKey& key, PendingTask& task) const noexcept {
    const std::uint64_t number = number_of(key);
    for (std::size_t probe = 0; probe < kPlaces; ++probe) {
        const Entry& entry = entries_[place_of(number, probe)];
        if (entry.key.load(std::memory_order_acquire) == number) {
            task = unpacked(entry.task.load(std::memory_order_relaxed));
            return true;
        }
    }
    return false;
}

bool PendingTasks::take(const TaskKey& key, PendingTask& task) noexcept {
    const std::uint64_t number = number_of(key);
    for (std::size_t probe = 0; probe < kPlaces; ++probe) {
        Entry& entry = entries_[place_of(number, probe)];
        if (entry.key.load(std::memory_order_acquire) != number) {
            continue;
        }
        const std::uint64_t packed = entry.task.load(std::memory_order_relaxed);
        std::uint64_t expected = number;
        if (entry.key.compare_exchange_strong(expected, kFree, std::memory_order_acq_rel)) {
            task = unpacked(packed);
            return true;
        }
    }
    return false;
}

void PendingTasks::clear() noexcept {
    for (Entry& entry : entries_) {
        entry.key.store(kFree, std::memory_order_relaxed);
    }
}

}  // namespace msmemscope::kernel_launch
