#include "watch/narrow_look.h"

#include <algorithm>

#include "core/writer/recorder.h"

namespace msmemscope::watch {
namespace {

// Once in so many looks that the kernel could answer for, all is read anyway.
constexpr std::uint32_t kLooksPerCheck = 512;

// At random, so that nothing that comes in turns is always missed.
bool is_check_due() noexcept {
    static std::uint32_t random = 2463534242U;  // under the watch's lock
    random ^= random << 13U;
    random ^= random >> 17U;
    random ^= random << 5U;
    return random % kLooksPerCheck == 0;
}

bool are_covered(const Change& change, std::uint64_t address, const Vector<Range>& written) noexcept {
    return std::all_of(change.ranges, change.ranges + change.range_count, [&](const ChangedRange& range) {
        return std::any_of(written.begin(), written.end(), [&](const Range& pages) {
            return pages.begin <= address + range.last && address + range.first < pages.end;
        });
    });
}

}  // namespace

Look look_narrowly(Fingerprint& fingerprint, WrittenPages& pages, const Content& content, Reading reading,
                   Change& change) noexcept {
    // Only memory of a live block stays mapped while we look. The pages are protected before they are read: whatever is
    // written meanwhile is told the next time.
    const bool can_be_told = reading.way == Reading::kDirect;
    Vector<Range> written;
    const bool is_told = can_be_told && pages.take(written);
    const bool is_checked = is_told && fingerprint.is_known() && is_check_due();
    if (is_told && fingerprint.is_known() && !is_checked) {
        if (written.empty()) {
            return {true, false, 0};
        }
        if (content.outer.empty() && fingerprint.takes_parts()) {
            std::uint64_t bytes = 0;
            for (const Range& range : written) {
                bytes += range.end - range.begin;
            }
            return {fingerprint.look_at_written(content, reading, written, change), false, bytes};
        }
    }
    if (can_be_told && !is_told) {
        pages.follow(content.begin(), content.end());
    }
    if (!fingerprint.look(content, reading, change)) {
        return {false, true, 0};
    }
    if (is_checked && content.outer.empty() && !are_covered(change, content.address, written)) {
        WrittenPages::distrust();
        recorder::warn(
            "watch: memory has changed in a way that the kernel did not see (by a device?): from now on all of it is "
            "read at each look, and the operator that is named for the change may be one before it");
    }
    return {true, true, content.bytes()};
}

}  // namespace msmemscope::watch
