// A secret for hash tables. Because of it, whoever wrote a file does not know the places of texts and numbers in a
// table.
//
// Without it a file can have texts that all belong into one place of a table. Reading a megabyte then takes hours.
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
