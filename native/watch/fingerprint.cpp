#include "watch/fingerprint.h"

#include <algorithm>
#include <cstring>

#include "watch/content_hash.h"

namespace msmemscope::watch {
namespace {

constexpr std::size_t kSegmentsAtOnce = 64;  // hashed in one go; few enough to stay in the cache for comparing

}  // namespace

void Change::add(std::uint64_t from, std::uint64_t to) noexcept {
    if (!happened) {
        happened = true;
        first = from;
    }
    last = to;
    if (range_count > 0 && ranges[range_count - 1].last + 1 == from) {
        ranges[range_count - 1].last = to;
    } else if (range_count < kMostRanges) {
        ranges[range_count++] = ChangedRange{from, to};
    } else {
        has_more_ranges = true;
    }
}

void Change::move_by(std::uint64_t bytes) noexcept {
    first += bytes;
    last += bytes;
    for (std::size_t index = 0; index < range_count; ++index) {
        ranges[index].first += bytes;
        ranges[index].last += bytes;
    }
}

void Change::append(const Change& behind) noexcept {
    for (std::size_t index = 0; index < behind.range_count; ++index) {
        add(behind.ranges[index].first, behind.ranges[index].last);
    }
    last = behind.last;
    has_more_ranges = has_more_ranges || behind.has_more_ranges;
    bytes_are_exact = bytes_are_exact && behind.bytes_are_exact;
    changed_bytes += behind.changed_bytes;
}

struct Fingerprint::Look {
    Fingerprint& fingerprint;
    Change& change;
    std::uint64_t done;
    std::uint64_t crc;
};

void Fingerprint::compare(std::size_t segment, const unsigned char* bytes, std::size_t count, std::uint64_t hash,
                          Change& change) noexcept {
    const std::uint64_t offset = static_cast<std::uint64_t>(segment) * kSegmentBytes;
    unsigned char* const before = copy_.empty() ? nullptr : copy_.data() + offset;
    if (known_ && segments_[segment] != hash) {
        if (before == nullptr) {
            change.add(offset, offset + count - 1);
        } else {
            for (std::size_t index = 0; index < count; ++index) {
                if (before[index] != bytes[index]) {
                    change.add(offset + index, offset + index);
                    ++change.changed_bytes;
                }
            }
        }
    }
    if (before != nullptr && (!known_ || segments_[segment] != hash)) {
        std::memcpy(before, bytes, count);
    }
    segments_[segment] = hash;
}

void Fingerprint::take(void* context, const void* bytes, std::size_t count) noexcept {
    Look& look = *static_cast<Look*>(context);
    const auto* const from = static_cast<const unsigned char*>(bytes);
    std::uint64_t hashes[kSegmentsAtOnce];
    for (std::size_t begin = 0; begin < count; begin += kSegmentsAtOnce * kSegmentBytes) {
        const std::size_t part = std::min(kSegmentsAtOnce * kSegmentBytes, count - begin);
        hash_segments(from + begin, part, hashes);
        for (std::size_t done = 0; done < part; done += kSegmentBytes) {
            look.fingerprint.compare((look.done + begin + done) / kSegmentBytes, from + begin + done,
                                     std::min(kSegmentBytes, part - done), hashes[done / kSegmentBytes], look.change);
        }
    }
    if (look.fingerprint.kind_ == Checksum::kCrc64) {
        look.crc = continue_crc64(look.crc, bytes, count);
    }
    look.done += count;
}

struct Fingerprint::Comparison {
    const unsigned char* before;
    const Vector<ChangedRange>& ranges;
    Change& change;
    std::uint64_t done;
};

void Fingerprint::compare_piece(void* context, const void* bytes, std::size_t count) noexcept {
    Comparison& comparison = *static_cast<Comparison*>(context);
    const auto* const now = static_cast<const unsigned char*>(bytes);
    for (std::size_t index = 0; index < count; ++index) {
        const std::uint64_t offset = comparison.done + index;
        if (now[index] != comparison.before[offset] &&
            std::none_of(comparison.ranges.begin(), comparison.ranges.end(), [offset](const ChangedRange& range) {
                return offset >= range.first && offset < range.last;
            })) {
            comparison.change.add(offset, offset);
            ++comparison.change.changed_bytes;
        }
    }
    comparison.done += count;
}

void Fingerprint::compare_outside(const Content& content, Reading reading, const Vector<ChangedRange>& ranges,
                                  Change& change) const noexcept {
    if (!known_ || copy_.size() != content.bytes()) {
        return;
    }
    change.bytes_are_exact = true;
    Comparison comparison{copy_.data(), ranges, change, 0};
    if (!read_content(content, reading, &compare_piece, &comparison)) {
        change = Change{};
    }
}

bool Fingerprint::look(const Content& content, Reading reading, Change& change) noexcept {
    const std::uint64_t bytes = content.bytes();
    const std::size_t segments = (bytes + kSegmentBytes - 1) / kSegmentBytes;
    if (segments_.size() != segments) {
        segments_.assign(segments, 0);
        known_ = false;
    }
    if (keeps_content_ && copy_.size() != bytes) {
        copy_.assign(bytes, 0);
        known_ = false;
    }
    change.bytes_are_exact = keeps_content_;
    Look look{*this, change, 0, 0};
    if (!read_content(content, reading, &take, &look)) {
        known_ = false;
        return false;
    }
    if (!known_ || change.happened) {
        checksum_ = kind_ == Checksum::kCrc64 ? look.crc : combine_segments(segments_.data(), segments_.size(), bytes);
    }
    known_ = true;
    return true;
}

std::uint64_t Fingerprint::look_at_segments(const Content& content, Reading reading, std::size_t first,
                                            std::size_t count, Change& change) noexcept {
    if (!known_ || first >= segments_.size() || !content.outer.empty()) {
        return 0;
    }
    const std::uint64_t begin = static_cast<std::uint64_t>(first) * kSegmentBytes;
    const std::uint64_t bytes = std::min<std::uint64_t>(content.run_bytes - begin, count * kSegmentBytes);
    Content part;
    part.address = content.address + begin;
    part.run_bytes = bytes;
    change.bytes_are_exact = keeps_content_;
    Look look{*this, change, begin, 0};
    if (!read_content(part, reading, &take, &look)) {
        known_ = false;
    } else if (change.happened && kind_ == Checksum::kHash64) {
        checksum_ = combine_segments(segments_.data(), segments_.size(), content.run_bytes);
    }
    return bytes;
}

bool Fingerprint::look_at_written(const Content& content, Reading reading, const Vector<Range>& written,
                                  Change& change) noexcept {
    const std::uint64_t bytes = content.run_bytes;
    change.bytes_are_exact = keeps_content_;
    std::uint64_t done = 0;  // offset up to which it was looked at: pages and segments do not begin at the same places
    for (const Range& range : written) {
        const std::uint64_t from = range.begin > content.address ? range.begin - content.address : 0;
        const std::uint64_t until = range.end > content.address ? range.end - content.address : 0;
        const std::uint64_t first = std::max(done, from / kSegmentBytes * kSegmentBytes);
        const std::uint64_t last = std::min(bytes, (until + kSegmentBytes - 1) / kSegmentBytes * kSegmentBytes);
        if (first >= last) {
            continue;
        }
        Content part;
        part.address = content.address + first;
        part.run_bytes = last - first;
        Look look{*this, change, first, 0};
        if (!read_content(part, reading, &take, &look)) {
            known_ = false;
            return false;
        }
        done = last;
    }
    if (change.happened) {
        checksum_ = combine_segments(segments_.data(), segments_.size(), bytes);
    }
    return true;
}

}  // namespace msmemscope::watch
