// Rows of dumps: what is read from usual ones, and that no damage leads outside of the content (with sanitizers).
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "offline/dump_rows/chosen_rows.h"
#include "offline/dump_rows/dump_rows.h"
#include "offline/dump_rows/row_relations.h"
#include "offline/dump_rows/text_table.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

const std::string kRows =
    "1,MALLOC,PTA,N/A,1700000000000000001,42,43,0,0x10,\"{allocation_id:1,addr:0x10,size:64,total:128,used:64,"
    "owner:a, b}\",\"File \"\"a.py\"\", line 3\nFile b.py\n\",\n"
    "2,OP_LAUNCH,ATEN_START,\"a,b\",1700000000000000002,N/A,N/A,N/A,N/A,,,\n"
    "3,KERNEL_LAUNCH,KERNEL_LAUNCH,kernel,1700000000000000003,42,43,0,N/A,\"{streamId:2,taskId:9}\",,\n"
    "4,ACCESS,READ,a,1700000000000000004,42,43,0,0x10,\"{allocation_id:1,addr:0x10,size:64,type:PTA}\",,\n"
    "5,FREE,PTA,N/A,1700000000000000005,42,43,0,0x10,\"{allocation_id:1,addr:0x10,size:64,used:0}\",,\n";

void test_usual_rows() {
    DumpRows rows;
    CHECK(read_dump_rows(kRows, rows));
    CHECK_EQUAL(rows.sequence.size(), 5U);
    CHECK_EQUAL(rows.size[0], 64);
    CHECK_EQUAL(rows.total[0], 128);
    CHECK_EQUAL(rows.used[4], 0);
    CHECK_EQUAL(rows.used[3], kNoNumber);
    CHECK_EQUAL(rows.process_id[1], kNoNumber);
    CHECK_EQUAL(rows.extra[2], (2ULL << 32) + 9);
    CHECK(rows.rest_texts.texts()[rows.rest[0] - 1] == "owner:a, b");
    CHECK(rows.name_texts.texts()[rows.name[1] - 1] == "a,b");
    CHECK(rows.python_stack_texts.texts()[rows.python_stack[0] - 1] == "File \"a.py\", line 3\nFile b.py\n");
}

// Every beginning of the content, each without the bytes behind it: a reader that looks further is seen by sanitizers.
void test_cut_off_rows() {
    for (std::size_t length = 0; length <= kRows.size(); ++length) {
        const std::vector<char> part(kRows.begin(), kRows.begin() + static_cast<std::ptrdiff_t>(length));
        DumpRows rows;
        const bool is_whole = read_dump_rows({part.data(), part.size()}, rows);
        const bool ends_row = length == 0 || part.back() == '\n';
        CHECK_EQUAL(is_whole, ends_row && std::count(part.begin(), part.end(), '"') % 2 == 0);
    }
}

void check_choice(const std::vector<char>& content, bool is_last) {
    const std::uint64_t ids[] = {1, 4, 5};
    const ChosenRows chosen = choose_rows({content.data(), content.size()}, {ids, 3, 42, 1, 5, 9}, is_last);
    CHECK(chosen.end >= 0 && static_cast<std::size_t>(chosen.end) <= content.size());
    CHECK(!is_last || static_cast<std::size_t>(chosen.end) == content.size());
    for (std::size_t row = 0; row < chosen.begin.size(); ++row) {
        CHECK(chosen.begin[row] < chosen.end && chosen.id[row] >= 0 && chosen.id[row] < 3);
        CHECK(chosen.place[row] == -1 || content[static_cast<std::size_t>(chosen.place[row])] == '}');
    }
}

void test_damaged_rows() {
    std::mt19937 random(7);
    const std::string letters = "\"\",\n\r0a}{: \xff";
    for (int round = 0; round < 20'000; ++round) {
        std::vector<char> content(kRows.begin(), kRows.end());
        for (std::size_t change = 0; change < 1 + random() % 4; ++change) {
            const auto place = content.begin() + static_cast<std::ptrdiff_t>(random() % content.size());
            if (random() % 3 == 0) {
                content.erase(place);
            } else {
                content.insert(place, letters[random() % letters.size()]);
            }
        }
        DumpRows rows;
        if (read_dump_rows({content.data(), content.size()}, rows)) {
            CHECK_EQUAL(rows.sequence.size(), rows.native_stack.size());
            CHECK_EQUAL(rows.sequence.size(), rows.pinned.size());
        }
        check_choice(content, round % 2 == 0);
    }
}

void test_choice() {
    const std::vector<char> content(kRows.begin(), kRows.end());
    const std::uint64_t ids[] = {1, 4};
    const ChosenRows chosen = choose_rows({content.data(), content.size()}, {ids, 2, 42, 1, 5, 9}, false);
    CHECK_EQUAL(chosen.begin.size(), 2U);
    CHECK_EQUAL(chosen.place[0], static_cast<std::int64_t>(kRows.find("owner:a, b}") + 10));
    CHECK_EQUAL(chosen.place[1], -1);  // no MALLOC
    CHECK_EQUAL(chosen.end, static_cast<std::int64_t>(content.size()));
}

void test_relations() {
    const RowRole roles[] = {RowRole::kOperatorEnd, RowRole::kOperatorStart, RowRole::kMalloc, RowRole::kOperatorStart,
                             RowRole::kFree,        RowRole::kOperatorEnd,   RowRole::kAccess, RowRole::kFree,
                             RowRole::kOperatorEnd, RowRole::kMalloc};
    const std::uint64_t ids[] = {0, 0, 7, 0, 7, 0, 7, 7, 0, 7};
    const std::uint64_t sequences[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    const std::uint32_t threads[] = {1, 1, 1, 2, 2, 1, 1, 2, 2, 2};
    const std::uint32_t names[] = {50, 51, 0, 52, 0, 51, 0, 0, 52, 0};
    std::vector<std::uint64_t> blocks(10);
    find_blocks(roles, ids, sequences, 10, blocks.data());
    CHECK(blocks == (std::vector<std::uint64_t>{0, 0, 0, 0, 3, 0, 3, 0, 0, 0}));
    std::vector<std::uint32_t> operators(10);
    find_outermost_operators(roles, threads, names, 10, operators.data());
    CHECK(operators == (std::vector<std::uint32_t>{0, 51, 51, 52, 52, 0, 0, 52, 0, 0}));
}

// An attack by somebody who knows a hash: texts, ids and threads that all belong into one place of a table. If this
// constant were all that a hash is made of, the loops below would take hours.
constexpr std::uint64_t kKnownMultiplier = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kColliding = 1'000'000;

std::uint64_t mixed_as_known(std::uint64_t value) {
    const unsigned __int128 product = static_cast<unsigned __int128>(value) * kKnownMultiplier;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

void test_texts_made_to_collide() {
    std::string texts;
    texts.reserve(16 * kColliding);
    TextTable table;
    for (std::uint64_t number = 0; number < kColliding; ++number) {
        // The second word takes back all that is known of the first one.
        const std::uint64_t words[] = {number, mixed_as_known((16 * kKnownMultiplier) ^ number)};
        const std::size_t place = texts.size();
        texts.append(reinterpret_cast<const char*>(words), sizeof(words));
        CHECK_EQUAL(table.number_of({texts.data() + place, sizeof(words)}), number + 1);
    }
}

void test_numbers_made_to_collide() {
    const std::vector<RowRole> mallocs(kColliding, RowRole::kMalloc);
    const std::vector<RowRole> starts(kColliding, RowRole::kOperatorStart);
    std::vector<std::uint64_t> ids;
    std::vector<std::uint32_t> threads;
    constexpr std::uint32_t kBuckets = 2144977;  // of the standard library's table, at so many threads
    for (std::uint64_t number = 0; number < kColliding; ++number) {
        ids.push_back((number + 1) << 44);
        threads.push_back(static_cast<std::uint32_t>(number) * (number < 2000 ? kBuckets : 1));
    }
    std::vector<std::uint64_t> blocks(kColliding);
    find_blocks(mallocs.data(), ids.data(), ids.data(), kColliding, blocks.data());
    std::vector<std::uint32_t> operators(kColliding);
    find_outermost_operators(starts.data(), threads.data(), threads.data(), kColliding, operators.data());
    CHECK_EQUAL(operators.back(), threads.back());
}

}  // namespace

int main() {
    test_texts_made_to_collide();
    test_numbers_made_to_collide();
    test_usual_rows();
    test_cut_off_rows();
    test_damaged_rows();
    test_choice();
    test_relations();
}
