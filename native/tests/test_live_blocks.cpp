// The table of live blocks against a plain map, alone and with threads.
#include <atomic>
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

// Threads allocate and free their own addresses while another one claims what has no record: each
// block is claimed at most once, and whoever frees it learns whether it was.
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

}  // namespace

int main() {
    behaves_like_a_map();
    grows_to_many_blocks();
    claims_race_with_frees();
    return 0;
}
