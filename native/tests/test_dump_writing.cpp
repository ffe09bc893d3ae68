// Rows of dumps as they are written. No text leads outside of memory, however long it is (with sanitizers). Python
// tests how SQLite and readers of CSV files read them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "offline/dump_writing/cells.h"
#include "offline/dump_writing/database_writer.h"
#include "offline/dump_writing/keyed_texts.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

Numbers numbers_of(const std::vector<std::uint64_t>& values) {
    return {reinterpret_cast<const char*>(values.data()), sizeof(std::uint64_t), sizeof(std::uint64_t), false};
}

CellColumn column_of_texts(const KeyedTexts& texts, const std::vector<std::uint64_t>& keys) {
    TextPart part;
    part.form = ValueForm::kKey;
    part.values = numbers_of(keys);
    part.texts = &texts;
    CellColumn column;
    column.is_text = true;
    column.shapes = {{part}};
    return column;
}

CellColumn column_of_numbers(const std::vector<std::uint64_t>& values) {
    CellColumn column;
    column.numbers = numbers_of(values);
    return column;
}

void test_csv() {
    KeyedTexts texts(TextForm::kCsv);
    const std::vector<std::uint64_t> keys = {1, 2, 3, 0, 1};
    std::vector<std::uint64_t> fresh;
    texts.find_new(numbers_of(keys), keys.size(), fresh);
    CHECK((fresh == std::vector<std::uint64_t>{1, 2, 3}));
    texts.add(1, "plain");
    texts.add(2, "with \"quotes\", and more");
    texts.add(3, "");
    ByteBuffer buffer;
    const std::vector<CellColumn> columns = {column_of_numbers(keys), column_of_texts(texts, keys)};
    CHECK_EQUAL(put_csv_rows(buffer, columns, {nullptr, keys.size()}, 0, SIZE_MAX), keys.size());
    CHECK(buffer.text() == "1,plain\n2,\"with \"\"quotes\"\", and more\"\n3,\"\"\n0,\n1,plain\n");
}

void test_many_keys() {
    KeyedTexts texts(TextForm::kPlain);
    constexpr std::uint64_t kCount = 100000;
    for (std::uint64_t key = 1; key <= kCount; ++key) {
        texts.add(key << 20, std::to_string(key));
    }
    KeyedText found{};
    for (std::uint64_t key = 1; key <= kCount; ++key) {
        CHECK(texts.find(key << 20, found) && found.text == std::to_string(key));
        CHECK(!texts.find((key << 20) + 1, found));
    }
    texts.clear();
    CHECK(!texts.find(1 << 20, found));
}

void test_database() {
    KeyedTexts texts(TextForm::kPlain);
    std::vector<std::uint64_t> keys;
    for (std::size_t length = 1; length < 3 * kPageBytes; length += 7) {
        keys.push_back(length);
        texts.add(length, std::string(length, 'x'));
    }
    DatabaseWriter writer;
    const std::size_t table = writer.add_table("rows", "CREATE TABLE \"rows\" (\"a\" INTEGER, \"b\" TEXT)");
    const std::vector<CellColumn> columns = {column_of_numbers(keys), column_of_texts(texts, keys)};
    std::size_t bytes = 0;
    for (std::size_t begin = 0; begin < keys.size();) {
        begin = writer.put_rows(table, columns, {nullptr, keys.size()}, begin, kPageBytes);
        bytes += writer.pages().size();
        writer.pages().clear();
    }
    writer.finish();
    bytes += writer.pages().size();
    CHECK_EQUAL(bytes % kPageBytes, 0U);
    const std::string_view first(writer.first_page().data(), kPageBytes);
    CHECK(first.substr(0, 15) == "SQLite format 3");
    const auto byte = [&first](std::size_t place) { return std::size_t{static_cast<unsigned char>(first[place])}; };
    CHECK_EQUAL((byte(29) << 16 | byte(30) << 8 | byte(31)) * kPageBytes, bytes);
}

}  // namespace

int main() {
    test_csv();
    test_many_keys();
    test_database();
}
