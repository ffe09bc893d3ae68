// Checksums are the same with vectors of every width that the processor has. A file or a log may be compared with one
// of another machine.
#include <cstdint>
#include <vector>

#include "tests/check.h"
#include "watch/content_hash.h"

using namespace msmemscope::watch;

namespace {

constexpr std::size_t kSegments = 37;
constexpr unsigned kWidths = 3;

std::vector<unsigned char> noise(std::size_t bytes) {
    std::vector<unsigned char> content(bytes);
    std::uint64_t state = 88172645463325252ULL;
    for (unsigned char& byte : content) {
        state ^= state << 13U;
        state ^= state >> 7U;
        state ^= state << 17U;
        byte = static_cast<unsigned char>(state);
    }
    return content;
}

// Content may begin anywhere, and vectors are read where it does.
void every_width_gives_the_same(std::size_t offset) {
    const auto content = noise(offset + kSegments * kSegmentBytes);
    const unsigned char* const from = content.data() + offset;
    unsigned widths = 0;
    for (unsigned width = 0; width < kWidths; ++width) {
        std::vector<std::uint64_t> hashes(kSegments);
        if (!hash_whole_segments_at(width, from, kSegments, hashes.data())) {
            continue;
        }
        ++widths;
        for (std::size_t segment = 0; segment < kSegments; ++segment) {
            const unsigned char* const begin = from + segment * kSegmentBytes;
            CHECK_EQUAL(hashes[segment], hash_segment_plainly(begin, kSegmentBytes, 0));
            CHECK_EQUAL(hashes[segment], hash_segment(begin, kSegmentBytes, 0));
        }
    }
    CHECK(widths >= 1);
}

void the_last_segment_may_be_shorter(std::size_t rest) {
    const auto content = noise(2 * kSegmentBytes + rest);
    std::vector<std::uint64_t> hashes(rest == 0 ? 2 : 3);
    hash_segments(content.data(), content.size(), hashes.data());
    CHECK_EQUAL(hashes[1], hash_segment_plainly(content.data() + kSegmentBytes, kSegmentBytes, 0));
    if (rest != 0) {
        CHECK_EQUAL(hashes[2], hash_segment_plainly(content.data() + 2 * kSegmentBytes, rest, 0));
    }
}

}  // namespace

int main() {
    for (const std::size_t offset : {0U, 1U, 3U, 32U, 63U}) {
        every_width_gives_the_same(offset);
    }
    for (const std::size_t rest : {0U, 1U, 64U, 1000U, 1023U}) {
        the_last_segment_may_be_shorter(rest);
    }
}
