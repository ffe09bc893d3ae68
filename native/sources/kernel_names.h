// Names of kernels by the numbers that a runtime knows them by.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// Lock-free; what is added stays. Memory is reserved and takes space when it is used.
class KernelNames {
public:
    static constexpr std::size_t kCapacity = 1U << 14U;
    static constexpr std::size_t kTextBytes = 1U << 20U;
    static constexpr std::size_t kLongest = 1000;

    // The first text of a number holds. False if there is no room.
    bool add(std::uint64_t id, const char* text, std::size_t bytes) noexcept;

    // Null if the number is not known. Otherwise the text, which ends with a zero byte.
    const char* find(std::uint64_t id) const noexcept;

    // The recorder's id of the name; 0 if it is not known.
    std::uint32_t string_id(const RecordingScope& scope, std::uint64_t id) noexcept;

private:
    struct Entry {
        std::atomic<std::uint64_t> id;  // 0: free
        std::atomic<const char*> text;  // null while it is being written
        // The recorder's id of it, and above it the epoch for which that holds.
        std::atomic<std::uint64_t> string_id;
    };

    Entry* locate(std::uint64_t id) noexcept;

    Entry entries_[kCapacity];
    char texts_[kTextBytes];
    std::atomic<std::size_t> text_bytes_;
};

}  // namespace msmemscope
