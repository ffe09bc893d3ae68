// Which pages of the host's memory were written since we last asked the kernel. If nobody wrote memory, a look at it
// takes microseconds, and its bytes need not be read.
//
// Linux 6.7 and later answer by PAGEMAP_SCAN. The memory is registered with userfaultfd for asynchronous write
// protection. The first write to a page faults once, is noted, and goes on without anybody's help. Older kernels, and
// sandboxes that forbid the calls, answer nothing. Writes that bypass the processor's page tables are not seen, such as
// those of a device into pinned memory.
#pragma once

#include <cstdint>

#include "watch/memory_reader.h"

namespace msmemscope::watch {

#pragma GCC visibility push(default)

class WrittenPages {
public:
    // Less is read in the time in which the kernel answers.
    static constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10U;
    static constexpr std::uint64_t kMostAsked = std::uint64_t{8} << 20U;

    WrittenPages() noexcept = default;
    WrittenPages(WrittenPages&& other) noexcept;
    WrittenPages& operator=(WrittenPages&& other) noexcept;
    WrittenPages(const WrittenPages&) = delete;
    WrittenPages& operator=(const WrittenPages&) = delete;
    ~WrittenPages();

    // From now on, writes to the pages of [begin, end) are noted. Read the memory after this call. If the kernel cannot
    // note writes, the result is false, and nothing is changed. Asking again costs nothing. The memory must stay mapped
    // as long as `take` is called. Of unmapped memory the kernel says that nobody wrote it.
    bool follow(std::uint64_t begin, std::uint64_t end) noexcept;

    // Takes the ranges that were written since `follow` or the last call, in rising order, cut to whole pages. False if
    // that is not known. Then all of it may have been written, and follow is to be called again.
    bool take(Vector<Range>& written) noexcept;

    // Asks once about all followed memory from an address on. It goes as far as memory is followed without a gap, and
    // up to about kMostAsked. Until the answer is forgotten, `take` is answered from it.
    static void ask_from(std::uint64_t begin) noexcept;
    static void forget_answer() noexcept;

    bool is_following() const noexcept { return begin_ != end_; }

    // Call this in a forked child before anything else. The kernel was asked about the parent's memory.
    static void become_child() noexcept;

    // The kernel was found not to see all writes: it is not asked any more in this process.
    static void distrust() noexcept;

private:
    static bool protect(const Range& range) noexcept;
    bool is_answered() const noexcept;
    void note(const Range& range) noexcept;
    static void tell(const Range& range) noexcept;
    static Range followed_by_nobody(Range range) noexcept;
    void stop() noexcept;

    std::uint64_t begin_ = 0;  // of the pages that are followed; equal where none are
    std::uint64_t end_ = 0;
    // Written since they were taken last. If two follow the same page, the first one that asks protects it again, and
    // the other one learns of the write here.
    Vector<Range> written_;
    unsigned busy_looks_ = 0;     // in a row, at which much had been written
    unsigned looks_to_wait_ = 0;  // before it is followed again
};

#pragma GCC visibility pop

}  // namespace msmemscope::watch
