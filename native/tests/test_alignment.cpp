// Alignment against the textbook's dynamic programming, on many small sequences; and on long ones that hardly match.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "offline/alignment/alignment.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

using Numbers = std::vector<std::uint32_t>;

std::size_t longest_common(const Numbers& first, const Numbers& second) {
    Numbers row(second.size() + 1);
    Numbers before(second.size() + 1);
    for (const std::uint32_t number : first) {
        for (std::size_t index = 0; index < second.size(); ++index) {
            row[index + 1] = number == second[index] ? before[index] + 1 : std::max(before[index + 1], row[index]);
        }
        before = row;
    }
    return before[second.size()];
}

Alignment aligned(const Numbers& first, const Numbers& second, std::int64_t most_steps) {
    return align(first.data(), first.size(), second.data(), second.size(), most_steps);
}

// How many elements have partners; they must be equal, and in order.
std::size_t checked(const Alignment& found, const Numbers& first, const Numbers& second) {
    CHECK_EQUAL(found.partners.size(), first.size());
    std::size_t count = 0;
    std::int64_t last = kNoPartner;
    for (std::size_t index = 0; index < first.size(); ++index) {
        const std::int64_t partner = found.partners[index];
        if (partner != kNoPartner) {
            CHECK(partner > last && static_cast<std::size_t>(partner) < second.size());
            CHECK_EQUAL(first[index], second[static_cast<std::size_t>(partner)]);
            last = partner;
            ++count;
        }
    }
    return count;
}

Numbers random_numbers(std::mt19937& random, std::size_t count, std::uint32_t different) {
    Numbers numbers(count);
    for (std::uint32_t& number : numbers) {
        number = static_cast<std::uint32_t>(random() % different);
    }
    return numbers;
}

}  // namespace

int main() {
    std::mt19937 random(20260101);  // the same sequences in every run
    for (int round = 0; round < 20000; ++round) {
        const auto different = static_cast<std::uint32_t>(1 + random() % 6);
        const Numbers first = random_numbers(random, random() % 30, different);
        const Numbers second = random_numbers(random, random() % 30, different);
        const Alignment found = aligned(first, second, 1000);
        CHECK(found.is_longest);
        CHECK_EQUAL(checked(found, first, second), longest_common(first, second));
        checked(aligned(first, second, 1 + static_cast<std::int64_t>(random() % 4)), first, second);
    }
    // Cut short, it still ends soon, and says so.
    const Numbers first = random_numbers(random, 100000, 1000);
    const Numbers second = random_numbers(random, 100000, 1000);
    const Alignment found = aligned(first, second, 100);
    CHECK(!found.is_longest);
    CHECK(checked(found, first, second) > 0);
    CHECK_EQUAL(checked(aligned(first, first, 1), first, first), first.size());
}
