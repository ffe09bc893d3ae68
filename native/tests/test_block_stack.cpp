// The stack of blocks against what is alive below each block at each moment.
#include <cstdint>
#include <random>
#include <vector>

#include "offline/block_stack/block_stack.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

constexpr std::size_t kMost = 1 << 20;

void check_against_definition(std::uint32_t seed) {
    std::mt19937 random(seed);
    const std::size_t count = random() % 40;
    std::vector<std::uint32_t> begins(count);
    std::vector<std::uint32_t> ends(count);
    std::vector<std::int64_t> sizes(count);
    std::uint32_t row = 0;
    for (std::size_t block = 0; block < count; ++block) {
        row += 1 + random() % 3;
        begins[block] = row;
        ends[block] = random() % 5 == 0 ? UINT32_MAX : row + random() % 30;
        sizes[block] = random() % 100;
    }
    const auto found = stack_blocks(begins.data(), ends.data(), sizes.data(), count, kMost);
    CHECK(found.has_value());
    std::vector<std::uint64_t> covered(count);
    for (std::size_t piece = 0; piece < found->blocks.size(); ++piece) {
        const std::uint32_t block = found->blocks[piece];
        CHECK(found->begins[piece] < found->ends[piece]);
        covered[block] += found->ends[piece] - found->begins[piece];
        for (std::uint32_t now = found->begins[piece]; now < found->ends[piece] && now < row + 40; ++now) {
            std::int64_t below = 0;
            for (std::size_t other = 0; other < block; ++other) {
                below += begins[other] <= now && ends[other] > now ? sizes[other] : 0;
            }
            CHECK_EQUAL(found->lows[piece], below);
        }
    }
    for (std::size_t block = 0; block < count; ++block) {
        CHECK_EQUAL(covered[block], static_cast<std::uint64_t>(ends[block] - begins[block]));
    }
    const std::size_t pieces = found->blocks.size();
    CHECK(pieces == 0 || !stack_blocks(begins.data(), ends.data(), sizes.data(), count, pieces - 1).has_value());
}

}  // namespace

int main() {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        check_against_definition(seed);
    }
}
