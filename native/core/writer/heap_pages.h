// The pages of the C library's heaps that are not in memory. A heap grows before it is touched, and malloc_trim gives
// pages back. Nothing here takes a lock or allocates. It lies in ProcessState, which fork wipes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace msmemscope {

class HeapPages {
public:
    // Bytes of all heaps that are not in memory. Of large heaps it is an estimate. To ask takes about a millisecond,
    // and one in a hundred of the time. Until then the last result holds, unless it is to be made anew. Where heaps are
    // is looked up again after two seconds. A second thread gets the last result.
    std::uint64_t absent_bytes(bool anew) noexcept;

private:
    static constexpr std::size_t kMostHeaps = 256;

    struct Heap {
        std::uint64_t begin;
        std::uint64_t end;  // 0: the main heap, which ends where the program's data does
    };

    void find() noexcept;
    void add(std::uint64_t begin, std::uint64_t end) noexcept;
    std::uint64_t ask() const noexcept;

    std::atomic<bool> is_busy_;
    std::atomic<std::uint64_t> last_absent_;
    // One thread at a time uses these.
    Heap heaps_[kMostHeaps];
    std::size_t count_;
    std::uint64_t found_ns_;
    std::uint64_t due_ns_;
};

}  // namespace msmemscope
