// Which elements of two sequences belong together: the longest common subsequence, in linear memory.
//
// For analyses, not for the observed process. The algorithm divides and conquers: E. Myers, "An O(ND) Difference
// Algorithm and Its Variations", Algorithmica 1 (1986), section 4b. The expected time is O(N + D^2), where D is the
// number of elements without a partner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msmemscope {

struct Alignment {
    // For each element of the first sequence the index of its partner in the second, kNoPartner if it has none.
    // Ascending.
    std::vector<std::int64_t> partners;
    // False if the sequences differ so much that the search was cut short: there may be a longer common subsequence.
    bool is_longest;
};

inline constexpr std::int64_t kNoPartner = -1;

// Aligns two sequences of numbers; equal numbers may be partners. most_steps bounds the search within one part of the
// sequences. The time of that search is proportional to its square.
Alignment align(const std::uint32_t* first, std::size_t first_count, const std::uint32_t* second,
                std::size_t second_count, std::int64_t most_steps);

}  // namespace msmemscope
