// Rows of DB dumps: what is read from the pages of a usual file, and that no damage leads outside of them (with
// sanitizers).
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "offline/dump_rows/database_rows.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

constexpr std::uint32_t kPageBytes = 512;

void put(std::string& content, std::size_t place, std::uint32_t value, int bytes) {
    for (int byte = 0; byte < bytes; ++byte) {
        content[place + static_cast<std::size_t>(byte)] = static_cast<char>(value >> (8 * (bytes - 1 - byte)));
    }
}

std::string varint(std::uint32_t value) {
    std::string text(1, static_cast<char>(value & 0x7f));
    for (value >>= 7; value != 0; value >>= 7) {
        text.insert(text.begin(), static_cast<char>((value & 0x7f) | 0x80));
    }
    return text;
}

// A row as SQLite records it: the types of its values, and then these.
std::string record(std::uint8_t id, const std::string& attributes, const std::string& stack) {
    std::string types;
    std::string body;
    const auto text = [&](const std::string& value) {
        types += varint(static_cast<std::uint32_t>(value.size()) * 2 + 13);
        body += value;
    };
    const auto number = [&](std::uint8_t value) {
        types += '\1';
        body += static_cast<char>(value);
    };
    number(id);
    text("MALLOC");
    text("PTA");
    text("N/A");
    number(9);
    number(42);
    number(43);
    text("0");
    text("0x10");
    text(attributes);
    text(stack);
    text("");
    return varint(static_cast<std::uint32_t>(types.size()) + 1) + types + body;
}

// A page of a table: its header, and cells from its end.
std::string page_of(std::uint8_t type, std::size_t begin, const std::vector<std::string>& cells, std::uint32_t right) {
    std::string page(kPageBytes, '\0');
    page[begin] = static_cast<char>(type);
    put(page, begin + 3, static_cast<std::uint32_t>(cells.size()), 2);
    const std::size_t header = type == 5 ? 12 : 8;
    if (type == 5) {
        put(page, begin + 8, right, 4);
    }
    std::size_t end = kPageBytes;
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
        end -= cells[cell].size();
        page.replace(end, cells[cell].size(), cells[cell]);
        put(page, begin + header + 2 * cell, static_cast<std::uint32_t>(end), 2);
    }
    return page;
}

// Page 1: the schema; 2: the inner page of the table; 3 and 4: its leaves; 5 and 6: where the last row goes on.
std::string file() {
    const auto cell = [](std::uint8_t row, const std::string& payload) {
        return varint(static_cast<std::uint32_t>(payload.size())) + static_cast<char>(row) + payload;
    };
    std::string first = page_of(13, 100, {}, 0);
    first.replace(0, 16, std::string("SQLite format 3\0", 16));
    put(first, 16, kPageBytes, 2);
    first[18] = first[19] = 1;
    put(first, 56, 1, 4);
    const std::string block = R"({"allocation_id":"1","addr":"0x10","size":"64")";
    const std::string one = record(1, block + R"(,"total":"128","used":"64","owner":"a, b"})", "");
    const std::string two = record(2, R"({"streamId":"2","taskId":"9"})", "a.py(3): f\n");
    const std::string long_one = record(3, block + "}", std::string(1200, 's'));
    // As much of a long row as the format leaves in its leaf.
    const std::size_t least = (kPageBytes - 12) * 32 / 255 - 23;
    const std::size_t fitting = least + (long_one.size() - least) % (kPageBytes - 4);
    const std::size_t local = fitting <= kPageBytes - 35 ? fitting : least;
    std::string overflow;
    std::string next = std::string("\0\0\0\5", 4);
    std::uint32_t number = 6;
    for (std::size_t place = local; place < long_one.size(); place += kPageBytes - 4, ++number) {
        std::string page(kPageBytes, '\0');
        const std::string part = long_one.substr(place, kPageBytes - 4);
        put(page, 0, place + part.size() < long_one.size() ? number : 0, 4);
        page.replace(4, part.size(), part);
        overflow += page;
    }
    const std::string inner = std::string("\0\0\0\3", 4) + '\2';
    return first + page_of(5, 0, {inner}, 4) + page_of(13, 0, {cell(1, one), cell(2, two)}, 0) +
           page_of(13, 0,
                   {varint(static_cast<std::uint32_t>(long_one.size())) + '\3' + long_one.substr(0, local) + next}, 0) +
           overflow;
}

// An open file with some content, which has no name any more.
class OpenFile {
public:
    explicit OpenFile(const std::string& content) {
        char path[] = "/tmp/test_database_rows_XXXXXX";
        descriptor = mkstemp(path);
        CHECK(descriptor >= 0);
        unlink(path);
        CHECK_EQUAL(pwrite(descriptor, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    }
    ~OpenFile() { close(descriptor); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    int descriptor = -1;
};

bool read(const std::string& content, DumpRows& rows) {
    const OpenFile opened(content);
    DatabaseLeaves leaves;
    return find_database_leaves(opened.descriptor, 2, leaves) &&
           read_database_rows(
               {opened.descriptor, leaves.page_bytes, leaves.usable_bytes, leaves.pages.data(), leaves.pages.size()},
               rows);
}

void test_usual_rows() {
    DumpRows rows;
    CHECK(read(file(), rows));
    CHECK_EQUAL(rows.sequence.size(), 3U);
    CHECK_EQUAL(rows.size[0], 64);
    CHECK_EQUAL(rows.total[0], 128);
    CHECK_EQUAL(rows.used[0], 64);
    CHECK(rows.rest_texts.texts()[rows.rest[0] - 1] == R"("owner":"a, b"})");
    CHECK_EQUAL(rows.extra[1], (std::uint64_t{2} << 32) + 9);
    CHECK(rows.python_stack_texts.texts()[rows.python_stack[1] - 1] == "a.py(3): f\n");
    CHECK_EQUAL(rows.python_stack_texts.texts()[rows.python_stack[2] - 1].size(), 1200U);
    CHECK(rows.words_texts.texts()[0] == "MALLOC,PTA");
    CHECK_EQUAL(rows.process_id[2], 42);
}

void test_damage_stays_inside() {
    std::mt19937 random(1);
    const std::string whole = file();
    for (int round = 0; round < 20'000; ++round) {
        std::string damaged = whole;
        for (int change = 0; change < 4; ++change) {
            // Most of what leads anywhere stands at the begin and the end of pages.
            const std::size_t page = random() % (whole.size() / kPageBytes) * kPageBytes;
            const std::size_t place = random() % 2 == 0 ? random() % 24 : random() % kPageBytes;
            damaged[page + place] = static_cast<char>(random());
        }
        if (round % 8 == 0) {
            damaged.resize(random() % damaged.size());
        }
        DumpRows rows;
        read(damaged, rows);
    }
}

}  // namespace

int main() {
    test_usual_rows();
    test_damage_stays_inside();
    return 0;
}
