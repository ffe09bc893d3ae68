// Interning: one id per content, the same for every thread, and 0 when full.
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/writer/hash.h"
#include "core/writer/intern_table.h"
#include "tests/check.h"

using msmemscope::InternTable;

int main() {
    static InternTable table;
    CHECK_EQUAL(table.intern(1).id, 0U);  // no memory yet
    CHECK(table.create());

    constexpr std::uint64_t kContents = 20000;
    std::vector<std::vector<InternTable::Result>> results(4);
    std::vector<std::thread> threads;
    for (auto& own : results) {
        threads.emplace_back([&own] {
            for (std::uint64_t content = 0; content < kContents; ++content) {
                own.push_back(table.intern(msmemscope::hash_word(9, content)));
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    std::unordered_map<std::uint32_t, std::uint64_t> owners;
    for (std::uint64_t content = 0; content < kContents; ++content) {
        int added = 0;
        for (const auto& own : results) {
            CHECK_EQUAL(own[content].id, results[0][content].id);
            added += own[content].added ? 1 : 0;
        }
        CHECK(results[0][content].id != 0);
        CHECK_EQUAL(added, 1);
        CHECK(owners.emplace(results[0][content].id, content).second);
    }

    // Hash 0 is a content like any other.
    const auto zero = table.intern(0);
    CHECK(zero.id != 0);
    CHECK_EQUAL(table.intern(0).id, zero.id);
    CHECK(!table.intern(0).added);

    // Full around a hash: no id, no endless search.
    unsigned refused = 0;
    for (std::uint64_t content = 0; content < 2 * InternTable::kLongestProbe; ++content) {
        refused += table.intern((content << 20U) + 500000).id == 0 ? 1 : 0;
    }
    CHECK(refused >= InternTable::kLongestProbe);
    CHECK(table.memory_bytes() <= InternTable::memory_limit_bytes());
    return 0;
}
