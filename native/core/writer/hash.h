// 64-bit hashing for interned content.
//
// A 128-bit multiplication folds two 64-bit words (the mixing step known from wyhash). It is fast on short inputs and
// well distributed, so equal hashes can be taken for equal content. With a million distinct entries the chance of any
// collision is about 3e-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace msmemscope {

inline std::uint64_t mix_words(std::uint64_t left, std::uint64_t right) noexcept {
    const auto product = static_cast<unsigned __int128>(left) * right;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t hash_word(std::uint64_t seed, std::uint64_t word) noexcept {
    return mix_words(seed ^ 0x9e3779b97f4a7c15ULL, word ^ 0xd1b54a32d192ed03ULL);
}

inline std::uint64_t hash_bytes(const void* bytes, std::size_t count, std::uint64_t seed) noexcept {
    const auto* cursor = static_cast<const unsigned char*>(bytes);
    std::uint64_t hash = hash_word(seed, count);
    while (count >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, cursor, 8);
        hash = hash_word(hash, word);
        cursor += 8;
        count -= 8;
    }
    if (count > 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, cursor, count);
        hash = hash_word(hash, word);
    }
    return hash_word(hash, 0xa0761d6478bd642fULL);
}

}  // namespace msmemscope
