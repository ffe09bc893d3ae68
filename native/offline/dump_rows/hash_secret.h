// What makes the places of texts and numbers in hash tables unknown to whoever wrote a file.
//
// Without it a file can be made whose texts all belong into one place of a table: reading a megabyte then takes hours.
#pragma once

#include <cstdint>

namespace msmemscope {

struct HashSecret {
    std::uint64_t seed;
    std::uint64_t multiplier;  // odd

    // Each bit of the result depends on all bits of the value and of the secret.
    std::uint64_t mixed(std::uint64_t value) const {
        const unsigned __int128 product = static_cast<unsigned __int128>(value ^ seed) * multiplier;
        return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
};

// Chosen by chance, once per process.
const HashSecret& hash_secret();

}  // namespace msmemscope
