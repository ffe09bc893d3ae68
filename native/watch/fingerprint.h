// The content of memory at the last look, and which bytes are different now.
#pragma once

#include <cstdint>

#include "watch/memory_reader.h"

namespace msmemscope::watch {

// Offsets from the beginning of the content, both inclusive.
struct ChangedRange {
    std::uint64_t first;
    std::uint64_t last;
};

struct Change {
    static constexpr std::size_t kMostRanges = 8;

    bool happened = false;
    bool bytes_are_exact = false;  // otherwise ranges are whole segments, and changed_bytes is not known
    std::uint64_t changed_bytes = 0;
    ChangedRange ranges[kMostRanges];
    std::size_t range_count = 0;
    bool has_more_ranges = false;
    std::uint64_t first = 0;
    std::uint64_t last = 0;

    void add(std::uint64_t from, std::uint64_t to) noexcept;
    // Tells of the same change by offsets from a place so many bytes in front.
    void move_by(std::uint64_t bytes) noexcept;
    // Adds another change, which lies behind this one.
    void append(const Change& behind) noexcept;
};

enum class Checksum : std::uint8_t { kHash64, kCrc64 };

class Fingerprint {
public:
    // keeps_content: changes are told to the byte, at the price of a copy.
    Fingerprint(bool keeps_content, Checksum kind) noexcept : keeps_content_(keeps_content), kind_(kind) {}

    // Looks at the memory. The first time nothing has changed. False if it cannot be read.
    bool look(const Content& content, Reading reading, Change& change) noexcept;

    // Looks at some of the segments of one piece of memory again, which was looked at before: those of
    // [first, first + count) that exist. Returns the bytes hashed.
    std::uint64_t look_at_segments(const Content& content, Reading reading, std::size_t first, std::size_t count,
                                   Change& change) noexcept;

    // Looks at the written parts of one piece of memory that was looked at before. The rest is as it was then. written:
    // rising addresses. False if the memory cannot be read.
    bool look_at_written(const Content& content, Reading reading, const Vector<Range>& written,
                         Change& change) noexcept;

    // Compares the memory outside of some ranges with the copy that is kept. The ranges are offsets, and their end is
    // exclusive. Changes nothing. Without a copy, nothing is found.
    void compare_outside(const Content& content, Reading reading, const Vector<ChangedRange>& ranges,
                         Change& change) const noexcept;

    bool is_known() const noexcept { return known_; }
    // Whether the checksum can be made from parts, so that look_at_written can be called.
    bool takes_parts() const noexcept { return known_ && kind_ == Checksum::kHash64; }
    void forget() noexcept { known_ = false; }
    std::uint64_t checksum() const noexcept { return checksum_; }
    // Null where no copy is kept.
    const unsigned char* content() const noexcept { return copy_.empty() ? nullptr : copy_.data(); }

private:
    struct Look;
    struct Comparison;
    static void compare_piece(void* context, const void* bytes, std::size_t count) noexcept;
    static void take(void* context, const void* bytes, std::size_t count) noexcept;
    void compare(std::size_t segment, const unsigned char* bytes, std::size_t count, std::uint64_t hash,
                 Change& change) noexcept;

    bool keeps_content_;
    Checksum kind_;
    bool known_ = false;
    std::uint64_t checksum_ = 0;
    Vector<std::uint64_t> segments_;
    Vector<unsigned char> copy_;
};

}  // namespace msmemscope::watch
