// The table of live blocks against a plain map, alone and with threads.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/writer/live_blocks.h"
#include "tests/check.h"

using msmemscope::LiveBlock;
using msmemscope::LiveBlocks;
using msmemscope::format::Pool;

namespace {

LiveBlocks table;

void behaves_like_a_map() {
    std::mt19937_64 random(1);
    std::unordered_map<std::uint64_t, LiveBlock> model;
    for (int step = 0; step < 400000; ++step) {
        const std::uint64_t address = 64 + random() % 60000 * 64;
        const auto known = model.find(address);
        LiveBlock block{};
        if (known != model.end()) {
            CHECK(table.find(Pool::kHost, address, block));
            CHECK(!table.find(Pool::kPta, address, block));
            CHECK(table.remove(Pool::kHost, address, block));
            CHECK_EQUAL(block.size_bytes, known->second.size_bytes);
            CHECK_EQUAL(block.sequence, known->second.sequence);
            CHECK_EQUAL(block.address, address);
            CHECK(block.device == known->second.device && block.pool == Pool::kHost);
            model.erase(known);
        } else {
            CHECK(!table.remove(Pool::kHost, address, block));
            block = LiveBlock{address, random() >> 17U, static_cast<std::uint64_t>(step) + 1, Pool::kHost,
                              static_cast<msmemscope::format::Device>(random() % 4098 - 2)};
            CHECK(table.insert(block));
            model.emplace(address, block);
        }
    }
    for (const auto& [address, expected] : model) {
        LiveBlock block{};
        CHECK(table.remove(Pool::kHost, address, block));
        CHECK_EQUAL(block.sequence, expected.sequence);
    }
}

// The number of an address's last FREE stays until another block has its place. The number of that block is larger.
void places_keep_the_numbers_of_frees() {
    table.reset();
    CHECK_EQUAL(table.latest_number_at(Pool::kHost, 4096), 0U);
    std::mt19937_64 random(2);
    std::unordered_map<std::uint64_t, std::uint64_t> freed;  // address to the number of its last FREE
    std::unordered_map<std::uint64_t, std::uint64_t> alive;
    for (std::uint64_t number = 1; number < 40000; ++number) {
        const std::uint64_t address = 64 + random() % 3000 * 64;
        LiveBlock block{};
        if (alive.count(address) != 0) {
            const auto end_number = [&](const LiveBlock& found) noexcept {
                CHECK_EQUAL(found.sequence, alive[address]);
                return number;
            };
            CHECK(table.remove(Pool::kHost, address, block, end_number));
            alive.erase(address);
            freed[address] = number;
        } else {
            const std::uint64_t latest = table.latest_number_at(Pool::kHost, address);
            CHECK(latest >= freed[address] && latest < number);
            CHECK(table.insert(LiveBlock{address, 64, number, Pool::kHost, 0}));
            alive[address] = number;
        }
    }
    for (std::uint64_t index = 1; index < 40000; ++index) {
        CHECK(table.insert(LiveBlock{index * 512, 64, index, Pool::kPta, 0}));
    }
    CHECK_EQUAL(table.latest_number_at(Pool::kHost, 64),
                ~std::uint64_t{0});  // there is more to look at than two buckets
    table.reset();
}

void grows_to_many_blocks() {
    constexpr std::uint64_t kBlocks = 1000000;
    for (std::uint64_t index = 1; index <= kBlocks; ++index) {
        CHECK(table.insert(LiveBlock{index * 512, index, index, Pool::kHal, 0}));
    }
    for (std::uint64_t index = 1; index <= kBlocks; ++index) {
        LiveBlock block{};
        CHECK(table.remove(Pool::kHal, index * 512, block));
        CHECK_EQUAL(block.size_bytes, index);
    }
    CHECK(table.memory_bytes() <= LiveBlocks::memory_limit_bytes());
}

// Threads allocate and free their own addresses while another one claims blocks without a record. Each block is claimed
// at most once. The thread that frees it learns whether it was claimed.
void claims_race_with_frees() {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> claimed{0};
    std::atomic<std::uint64_t> freed_claimed{0};
    std::vector<std::thread> threads;
    for (std::uint64_t owner = 1; owner <= 3; ++owner) {
        threads.emplace_back([&, owner] {
            for (int round = 0; round < 2000; ++round) {
                for (std::uint64_t index = 0; index < 16; ++index) {
                    CHECK(table.insert(LiveBlock{(owner << 32U) + index * 64 + 64, 64, 0, Pool::kHost, -2}));
                }
                for (std::uint64_t index = 0; index < 16; ++index) {
                    LiveBlock block{};
                    CHECK(table.remove(Pool::kHost, (owner << 32U) + index * 64 + 64, block));
                    freed_claimed += block.sequence != 0 ? 1 : 0;
                }
            }
        });
    }
    std::atomic<std::uint64_t> sequence{1};
    std::thread claimer([&] {
        while (!stop) {
            table.claim_unrecorded([&](const LiveBlock&) noexcept { return sequence.fetch_add(1); },
                                   [&](const LiveBlock& block) noexcept {
                                       CHECK(block.size_bytes == 64);
                                       ++claimed;
                                   });
        }
    });
    for (auto& thread : threads) {
        thread.join();
    }
    stop = true;
    claimer.join();
    CHECK_EQUAL(claimed.load(), freed_claimed.load());
}

// A claim was begun for a block, and meets the next block of the same place while that one is being put in. Either the
// claim fails, or the new block is claimed and known to be.
void claims_meet_the_next_block_of_a_place() {
    constexpr int kRounds = 1'000'000;
    constexpr int kRoundsBetweenTurns = 50'000;
    constexpr std::uint64_t kAddress = 7ULL << 32U;
    std::atomic<bool> stop{false};
    std::uint64_t freed_claimed = 0;
    std::uint64_t claimed = 0;
    std::thread claimer([&] {
        for (std::uint64_t sequence = 1; !stop; ++sequence) {
            LiveBlock block{kAddress, 64, 0, Pool::kHost, -2};
            claimed += table.claim_one(block, sequence) ? 1 : 0;
        }
    });
    for (int round = 0; round < kRounds; ++round) {
        LiveBlock block{kAddress, 64, 0, Pool::kHost, -2};
        CHECK(table.insert(block));
        if (round % kRoundsBetweenTurns == 0) {
            // On a busy machine both may have one processor, and neither is ever interrupted within a round.
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        CHECK(table.remove(Pool::kHost, kAddress, block));
        freed_claimed += block.sequence != 0 ? 1 : 0;
    }
    stop = true;
    claimer.join();
    CHECK(claimed > 0);
    CHECK_EQUAL(claimed, freed_claimed);
}

}  // namespace

int main() {
    behaves_like_a_map();
    places_keep_the_numbers_of_frees();
    grows_to_many_blocks();
    claims_race_with_frees();
    claims_meet_the_next_block_of_a_place();
    return 0;
}
