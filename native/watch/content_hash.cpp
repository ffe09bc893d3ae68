#include "watch/content_hash.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace msmemscope::watch {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kStripeBytes = 64;
constexpr std::size_t kStripes = kSegmentBytes / kStripeBytes;
[[maybe_unused]] constexpr std::size_t kPrefetchBytes = 2048;

// First digits of the fractional parts of square roots of primes, as in SHA-512: numbers with nothing up their sleeve.
alignas(64) constexpr std::uint64_t kStart[kLanes] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                                      0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                                      0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

struct Key {
    alignas(64) std::uint64_t words[kStripes * kLanes];
};

constexpr Key make_key() {
    Key key{};
    std::uint64_t state = 0x6d736d656d736370;
    for (std::uint64_t& word : key.words) {
        state += 0x9e3779b97f4a7c15;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
        word = mixed ^ (mixed >> 31U);
    }
    return key;
}

constexpr Key kKey = make_key();

std::uint64_t mix(std::uint64_t left, std::uint64_t right) noexcept {
    const auto product = static_cast<unsigned __int128>(left) * right;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t finish(const std::uint64_t* lanes, std::size_t count, std::uint64_t seed) noexcept {
    std::uint64_t hash = seed ^ (count * kStart[0]);
    for (std::size_t pair = 0; pair < kLanes / 2; ++pair) {
        hash = mix((hash + lanes[2 * pair]) ^ kStart[pair], lanes[2 * pair + 1] ^ kStart[pair + 4]);
    }
    return mix(hash, count + kStart[7]);
}

// Accumulators go from `start` to `lanes`, which may be the same memory. The vector versions keep them in registers. A
// wide load of words that were just stored in narrower pieces waits for the cache. That took longer than hashing a
// segment.
void accumulate_plainly(const unsigned char* bytes, std::size_t stripes, std::size_t first_stripe,
                        const std::uint64_t* start, std::uint64_t* lanes) noexcept {
    if (start != lanes) {
        std::memcpy(lanes, start, kLanes * sizeof(*lanes));
    }
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + stripe * kStripeBytes + lane * 8, 8);
            const std::uint64_t keyed = word ^ kKey.words[(first_stripe + stripe) * kLanes + lane];
            lanes[lane ^ 1U] += word;
            lanes[lane] += (keyed & 0xffffffffU) * (keyed >> 32U);
        }
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void accumulate_avx2(const unsigned char* bytes, std::size_t stripes,
                                                     std::size_t first_stripe, const std::uint64_t* start,
                                                     std::uint64_t* lanes) noexcept {
    __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(start));
    __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(start) + 1);
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
        const auto* const from = reinterpret_cast<const __m256i*>(bytes + stripe * kStripeBytes);
        const auto* const key = reinterpret_cast<const __m256i*>(kKey.words + (first_stripe + stripe) * kLanes);
        const __m256i low_words = _mm256_loadu_si256(from);
        const __m256i high_words = _mm256_loadu_si256(from + 1);
        const __m256i low_keyed = _mm256_xor_si256(low_words, _mm256_load_si256(key));
        const __m256i high_keyed = _mm256_xor_si256(high_words, _mm256_load_si256(key + 1));
        // 0x4e exchanges neighbours.
        low = _mm256_add_epi64(low, _mm256_shuffle_epi32(low_words, 0x4e));
        high = _mm256_add_epi64(high, _mm256_shuffle_epi32(high_words, 0x4e));
        low = _mm256_add_epi64(low, _mm256_mul_epu32(low_keyed, _mm256_srli_epi64(low_keyed, 32)));
        high = _mm256_add_epi64(high, _mm256_mul_epu32(high_keyed, _mm256_srli_epi64(high_keyed, 32)));
    }
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), low);
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes) + 1, high);
}

__attribute__((target("avx512f"))) void accumulate_avx512(const unsigned char* bytes, std::size_t stripes,
                                                          std::size_t first_stripe, const std::uint64_t* start,
                                                          std::uint64_t* lanes) noexcept {
    __m512i sums = _mm512_load_si512(start);
    const std::uint64_t* key = kKey.words + first_stripe * kLanes;
    for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
        const unsigned char* const from = bytes + stripe * kStripeBytes;
        // Segments follow each other, and a prefetch of what is not there does nothing.
        _mm_prefetch(from + kPrefetchBytes, _MM_HINT_T0);
        __m512i words = _mm512_loadu_si512(from);
        // Into a register: else the compiler reads it twice, which takes twice as long where it crosses two cache
        // lines.
        asm("" : "+v"(words));
        const __m512i keyed = _mm512_xor_si512(words, _mm512_load_si512(key + stripe * kLanes));
        // 0x4e exchanges neighbours. The masked form with all lanes set: the plain one makes older GCC warn.
        sums = _mm512_add_epi64(sums, _mm512_maskz_shuffle_epi32(0xffff, words, static_cast<_MM_PERM_ENUM>(0x4e)));
        sums = _mm512_add_epi64(sums, _mm512_maskz_mul_epu32(0xff, keyed, _mm512_maskz_srli_epi64(0xff, keyed, 32)));
    }
    _mm512_store_si512(lanes, sums);
}

// Whole segments, one after the other: the key stays in registers, and the end of one is worked out while the next is
// read.
__attribute__((target("avx2"))) void hash_whole_avx2(const unsigned char* bytes, std::size_t segments,
                                                     std::uint64_t* hashes) noexcept {
    for (std::size_t segment = 0; segment < segments; ++segment) {
        alignas(64) std::uint64_t lanes[kLanes];
        accumulate_avx2(bytes + segment * kSegmentBytes, kStripes, 0, kStart, lanes);
        hashes[segment] = finish(lanes, kSegmentBytes, 0);
    }
}

__attribute__((target("avx512f"))) void hash_whole_avx512(const unsigned char* bytes, std::size_t segments,
                                                          std::uint64_t* hashes) noexcept {
    for (std::size_t segment = 0; segment < segments; ++segment) {
        alignas(64) std::uint64_t lanes[kLanes];
        accumulate_avx512(bytes + segment * kSegmentBytes, kStripes, 0, kStart, lanes);
        hashes[segment] = finish(lanes, kSegmentBytes, 0);
    }
}
#endif

void hash_whole_plainly(const unsigned char* bytes, std::size_t segments, std::uint64_t* hashes) noexcept {
    for (std::size_t segment = 0; segment < segments; ++segment) {
        alignas(64) std::uint64_t lanes[kLanes];
        accumulate_plainly(bytes + segment * kSegmentBytes, kStripes, 0, kStart, lanes);
        hashes[segment] = finish(lanes, kSegmentBytes, 0);
    }
}

using Accumulate = void (*)(const unsigned char*, std::size_t, std::size_t, const std::uint64_t*, std::uint64_t*);

struct Width {
    Accumulate accumulate;
    void (*hash_whole)(const unsigned char* bytes, std::size_t segments, std::uint64_t* hashes);
    bool is_there;
};

constexpr unsigned kWidths = 3;

// The wider, the later.
Width width_at(unsigned number) noexcept {
#if defined(__x86_64__)
    if (number == 2) {
        return {&accumulate_avx512, &hash_whole_avx512, __builtin_cpu_supports("avx512f") != 0};
    }
    if (number == 1) {
        return {&accumulate_avx2, &hash_whole_avx2, __builtin_cpu_supports("avx2") != 0};
    }
#endif
    return {&accumulate_plainly, &hash_whole_plainly, number == 0};
}

Width widest() noexcept {
    unsigned number = kWidths - 1;
    while (!width_at(number).is_there) {
        --number;
    }
    return width_at(number);
}

const Width& width() noexcept {
    static const Width chosen = widest();
    return chosen;
}

std::uint64_t hash_with(Accumulate accumulate, const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
    alignas(64) std::uint64_t lanes[kLanes];
    const auto* const from = static_cast<const unsigned char*>(bytes);
    const std::size_t whole = count / kStripeBytes;
    accumulate(from, whole, 0, kStart, lanes);
    const std::size_t rest = count % kStripeBytes;
    if (rest != 0) {
        unsigned char last[kStripeBytes] = {};
        std::memcpy(last, from + whole * kStripeBytes, rest);
        accumulate_plainly(last, 1, whole, lanes, lanes);
    }
    return finish(lanes, count, seed);
}

// The old table, and seven more for eight bytes at a time.
struct CrcTables {
    std::uint64_t rows[8][256];
};

CrcTables make_crc_tables() noexcept {
    CrcTables tables{};
    for (unsigned byte = 0; byte < 256; ++byte) {
        std::uint64_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x42f0e1eba9ea3693U : 0U);
        }
        tables.rows[0][byte] = crc;
    }
    for (unsigned byte = 0; byte < 256; ++byte) {
        for (int row = 1; row < 8; ++row) {
            const std::uint64_t before = tables.rows[row - 1][byte];
            tables.rows[row][byte] = (before >> 8U) ^ tables.rows[0][before & 0xffU];
        }
    }
    return tables;
}

}  // namespace

std::uint64_t hash_segment(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
    return hash_with(width().accumulate, bytes, count, seed);
}

std::uint64_t hash_segment_plainly(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
    return hash_with(&accumulate_plainly, bytes, count, seed);
}

void hash_segments(const void* bytes, std::size_t count, std::uint64_t* hashes) noexcept {
    const auto* const from = static_cast<const unsigned char*>(bytes);
    const std::size_t whole = count / kSegmentBytes;
    width().hash_whole(from, whole, hashes);
    if (count % kSegmentBytes != 0) {
        hashes[whole] = hash_segment(from + whole * kSegmentBytes, count % kSegmentBytes, 0);
    }
}

bool hash_whole_segments_at(unsigned width, const void* bytes, std::size_t segments, std::uint64_t* hashes) noexcept {
    const Width chosen = width_at(width);
    if (chosen.is_there) {
        chosen.hash_whole(static_cast<const unsigned char*>(bytes), segments, hashes);
    }
    return chosen.is_there;
}

std::uint64_t combine_segments(const std::uint64_t* hashes, std::size_t count, std::uint64_t content_bytes) noexcept {
    constexpr std::size_t kWords = kSegmentBytes / sizeof(std::uint64_t);
    std::uint64_t hash = hash_segment(hashes, std::min(count, kWords) * sizeof(std::uint64_t), content_bytes);
    for (std::size_t done = kWords; done < count; done += kWords) {
        hash = hash_segment(hashes + done, std::min(count - done, kWords) * sizeof(std::uint64_t), hash);
    }
    return hash;
}

std::uint64_t continue_crc64(std::uint64_t crc, const void* bytes, std::size_t count) noexcept {
    static const CrcTables tables = make_crc_tables();
    const auto& rows = tables.rows;
    const auto* cursor = static_cast<const unsigned char*>(bytes);
    crc = ~crc;
    for (; count >= 8; count -= 8, cursor += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, cursor, 8);
        crc ^= word;
        crc = rows[7][crc & 0xffU] ^ rows[6][(crc >> 8U) & 0xffU] ^ rows[5][(crc >> 16U) & 0xffU] ^
              rows[4][(crc >> 24U) & 0xffU] ^ rows[3][(crc >> 32U) & 0xffU] ^ rows[2][(crc >> 40U) & 0xffU] ^
              rows[1][(crc >> 48U) & 0xffU] ^ rows[0][crc >> 56U];
    }
    for (; count > 0; --count, ++cursor) {
        crc = (crc >> 8U) ^ rows[0][(crc ^ *cursor) & 0xffU];
    }
    return ~crc;
}

}  // namespace msmemscope::watch
