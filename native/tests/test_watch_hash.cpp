// Checksums of memory: vectors of the older one, equal results with and without vector instructions, and places of
// changes.
#include <cstring>
#include <vector>

#include "tests/check.h"
#include "watch/content_hash.h"
#include "watch/fingerprint.h"

using namespace msmemscope::watch;

namespace {

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

void older_checksum_has_its_vectors() {
    unsigned char counted[256];
    for (int index = 0; index < 256; ++index) {
        counted[index] = static_cast<unsigned char>(index);
    }
    const unsigned char zeros[4] = {};
    CHECK_EQUAL(continue_crc64(0, "", 0), 0ULL);
    CHECK_EQUAL(continue_crc64(0, "123456789", 9), 0xb86883e6fa710a9fULL);
    CHECK_EQUAL(continue_crc64(0, zeros, 4), 0xaff418e82b02d1e8ULL);
    CHECK_EQUAL(continue_crc64(0, counted, 16), 0xdf76d10c7c11fb95ULL);
    CHECK_EQUAL(continue_crc64(0, counted, 256), 0xc48455633bde63a5ULL);
    CHECK_EQUAL(continue_crc64(continue_crc64(0, counted, 100), counted + 100, 156), 0xc48455633bde63a5ULL);
}

void widths_agree_for_every_length() {
    const auto content = noise(kSegmentBytes + 7);
    for (std::size_t bytes = 0; bytes <= kSegmentBytes; ++bytes) {
        CHECK_EQUAL(hash_segment(content.data() + 3, bytes, bytes),
                    hash_segment_plainly(content.data() + 3, bytes, bytes));
    }
}

void every_bit_counts() {
    auto content = noise(kSegmentBytes);
    const std::uint64_t before = hash_segment(content.data(), content.size(), 0);
    for (std::size_t bit = 0; bit < content.size() * 8; ++bit) {
        content[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
        CHECK(hash_segment(content.data(), content.size(), 0) != before);
        content[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
    }
    std::vector<unsigned char> zeros(kSegmentBytes);
    for (std::size_t bytes = 1; bytes <= kSegmentBytes; ++bytes) {
        CHECK(hash_segment(zeros.data(), bytes, 0) != hash_segment(zeros.data(), bytes - 1, 0));
    }
}

Content content_at(std::vector<unsigned char>& memory) {
    Content content;
    content.address = reinterpret_cast<std::uint64_t>(memory.data());
    content.run_bytes = memory.size();
    return content;
}

void changes_are_placed(bool keeps_content, Reading reading) {
    auto memory = noise(10 * kSegmentBytes + 100);
    const Content content = content_at(memory);
    Fingerprint fingerprint(keeps_content, Checksum::kHash64);
    Change change;
    CHECK(fingerprint.look(content, reading, change));
    CHECK(!change.happened);
    const std::uint64_t before = fingerprint.checksum();
    memory[3 * kSegmentBytes + 5] ^= 1U;
    memory[3 * kSegmentBytes + 6] ^= 1U;
    memory.back() ^= 1U;
    CHECK(fingerprint.look(content, reading, change));
    CHECK(change.happened && fingerprint.checksum() != before);
    CHECK_EQUAL(change.range_count, 2U);
    CHECK_EQUAL(change.last, memory.size() - 1);
    CHECK_EQUAL(change.first, keeps_content ? 3 * kSegmentBytes + 5 : 3 * kSegmentBytes);
    CHECK_EQUAL(change.ranges[0].last, keeps_content ? 3 * kSegmentBytes + 6 : 4 * kSegmentBytes - 1);
    CHECK_EQUAL(change.changed_bytes, keeps_content ? 3U : 0U);
    Change none;
    CHECK(fingerprint.look(content, reading, none));
    CHECK(!none.happened);
}

void views_are_read_in_their_order() {
    unsigned char memory[4 * 6];
    for (unsigned index = 0; index < sizeof(memory); ++index) {
        memory[index] = static_cast<unsigned char>(index);
    }
    // Columns 1 and 4 of a matrix of 4 times 6, column by column.
    Content content;
    content.address = reinterpret_cast<std::uint64_t>(memory) + 1;
    content.run_bytes = 1;
    content.outer = {Dimension{2, 3}, Dimension{4, 6}};
    std::vector<unsigned char> read;
    CHECK(read_content(
        content, Reading{Reading::kDirect, nullptr},
        [](void* context, const void* bytes, std::size_t count) {
            auto& all = *static_cast<std::vector<unsigned char>*>(context);
            const auto* from = static_cast<const unsigned char*>(bytes);
            all.insert(all.end(), from, from + count);
        },
        &read));
    const std::vector<unsigned char> expected{1, 7, 13, 19, 4, 10, 16, 22};
    CHECK(read == expected);
    CHECK_EQUAL(content.bytes(), 8U);
    CHECK_EQUAL(content.end() - content.begin(), 22U);
}

void memory_that_is_gone_is_an_answer() {
    Content content;
    content.address = 4096;
    content.run_bytes = 64;
    Fingerprint fingerprint(true, Checksum::kCrc64);
    Change change;
    CHECK(!fingerprint.look(content, Reading{Reading::kAsked, nullptr}, change));
    CHECK(!fingerprint.is_known() && !change.happened);
}

}  // namespace

int main() {
    older_checksum_has_its_vectors();
    widths_agree_for_every_length();
    every_bit_counts();
    for (const bool keeps_content : {false, true}) {
        changes_are_placed(keeps_content, Reading{Reading::kDirect, nullptr});
        changes_are_placed(keeps_content, Reading{Reading::kAsked, nullptr});
    }
    views_are_read_in_their_order();
    memory_that_is_gone_is_an_answer();
}
