#include "offline/dump_writing/database_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "offline/dump_rows/database_pages.h"

namespace msmemscope {
namespace {

constexpr std::size_t kLeafHeaderBytes = 8;
constexpr std::size_t kInteriorHeaderBytes = 12;
constexpr std::size_t kPlaceBytes = 2;
constexpr std::size_t kNumberBytes = 4;
constexpr std::size_t kMostVarintBytes = 9;
// Larger records go on in pages of their own; so much of those stays at least.
constexpr std::size_t kMostLocalBytes = kPageBytes - 35;
constexpr std::size_t kLeastLocalBytes = (kPageBytes - 12) * 32 / 255 - 23;
constexpr std::size_t kOverflowBytes = kPageBytes - kNumberBytes;
// SQLite locks bytes from here on, and keeps the page that holds them empty.
constexpr std::uint32_t kLockedPage = 0x40000000 / kPageBytes + 1;

constexpr std::uint64_t kNullType = 0;
constexpr std::uint64_t kZeroType = 8;
constexpr std::uint64_t kOneType = 9;
constexpr std::uint64_t kFirstTextType = 13;

void store(char* target, std::uint64_t number, std::size_t bytes) {
    for (std::size_t place = bytes; place > 0; --place, number >>= 8) {
        target[place - 1] = static_cast<char>(number & 0xff);
    }
}

std::size_t varint_bytes(std::uint64_t number) {
    std::size_t count = 1;
    while (count < kMostVarintBytes && number >> (7 * count) != 0) {
        ++count;
    }
    return count;
}

// Numbers of more than 56 bits, which take nine bytes of another kind, are none of ours: rows and lengths.
char* put_varint(char* target, std::uint64_t number) {
    const std::size_t count = varint_bytes(number);
    for (std::size_t place = count; place > 0; --place, number >>= 7) {
        target[place - 1] = static_cast<char>((number & 0x7f) | (place == count ? 0 : 0x80));
    }
    return target + count;
}

void put_empty_page(ByteBuffer& pages) {
    std::memset(pages.room(kPageBytes), 0, kPageBytes);
    pages.advance(kPageBytes);
}

// Appends a number; returns its type.
std::uint64_t put_number(ByteBuffer& body, std::uint64_t number) {
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return kNullType;  // there are no unsigned 64-bit integers; only damaged logs need the last bit
    }
    if (number <= 1) {
        return number == 0 ? kZeroType : kOneType;
    }
    static constexpr std::pair<std::size_t, std::uint64_t> kWidths[] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {6, 5}, {8, 6}};
    for (const auto& [bytes, type] : kWidths) {
        if (bytes == 8 || number >> (8 * bytes - 1) == 0) {
            store(body.room(bytes), number, bytes);
            body.advance(bytes);
            return type;
        }
    }
    return kNullType;
}

// Appends a record: the types of its values, and the values.
void put_record(ByteBuffer& record, const std::vector<std::uint64_t>& types, std::string_view body) {
    std::size_t header = 1;
    for (const std::uint64_t type : types) {
        header += varint_bytes(type);
    }
    header += varint_bytes(header) - 1;  // no table of ours has so many columns that this changes anything again
    char* const begin = record.room(header + body.size());
    char* at = put_varint(begin, header);
    for (const std::uint64_t type : types) {
        at = put_varint(at, type);
    }
    if (!body.empty()) {
        std::memcpy(at, body.data(), body.size());
    }
    record.advance(static_cast<std::size_t>(at - begin) + body.size());
}

}  // namespace

DatabaseWriter::DatabaseWriter() { put_empty_page(pages_); }

std::size_t DatabaseWriter::add_table(std::string name, std::string statement) {
    Table& table = tables_.emplace_back();
    table.name = std::move(name);
    table.statement = std::move(statement);
    return tables_.size() - 1;
}

std::size_t DatabaseWriter::put_rows(std::size_t table, const std::vector<CellColumn>& columns, const RowChoice& rows,
                                     std::size_t begin, std::size_t most_bytes) {
    std::size_t place = begin;
    for (; place < rows.count && pages_.size() < most_bytes; ++place) {
        put_row(tables_[table], columns, rows.at(place));
    }
    return place;
}

void DatabaseWriter::put_row(Table& table, const std::vector<CellColumn>& columns, std::size_t row) {
    types_.clear();
    body_.clear();
    record_.clear();
    for (const CellColumn& column : columns) {
        if (column.is_text) {
            const std::size_t begin = body_.size();
            put_cell_text(body_, column, row);
            types_.push_back(kFirstTextType + 2 * (body_.size() - begin));
        } else {
            types_.push_back(put_number(body_, column.numbers.at(row)));
        }
    }
    put_record(record_, types_, body_.text());
    const std::size_t bytes = record_.size();
    std::size_t local = bytes;
    if (bytes > kMostLocalBytes) {
        local = kLeastLocalBytes + (bytes - kLeastLocalBytes) % kOverflowBytes;
        local = local <= kMostLocalBytes ? local : kLeastLocalBytes;
    }
    const std::uint64_t number = ++table.rows;
    const std::size_t cell = varint_bytes(bytes) + varint_bytes(number) + local + (local < bytes ? kNumberBytes : 0);
    if (kLeafHeaderBytes + (table.places.size() + 1) * kPlaceBytes + cell > table.cells_begin) {
        --table.rows;
        put_leaf(table);
        ++table.rows;
    }
    table.cells_begin -= cell;
    table.places.push_back(static_cast<std::uint16_t>(table.cells_begin));
    char* at = put_varint(table.cells.data() + table.cells_begin, bytes);
    at = put_varint(at, number);
    std::memcpy(at, record_.data(), local);
    if (local < bytes) {
        store(at + local, put_overflow(record_.text().substr(local)), kNumberBytes);
    }
}

void DatabaseWriter::put_leaf(Table& table) {
    const std::uint32_t number = next_page();
    char* const page = pages_.data() + pages_.size() - kPageBytes;
    page[0] = static_cast<char>(kTableLeaf);
    store(page + 3, table.places.size(), 2);
    store(page + 5, table.cells_begin, 2);
    for (std::size_t place = 0; place < table.places.size(); ++place) {
        store(page + kLeafHeaderBytes + place * kPlaceBytes, table.places[place], kPlaceBytes);
    }
    std::memcpy(page + table.cells_begin, table.cells.data() + table.cells_begin, kPageBytes - table.cells_begin);
    table.leaves.push_back({number, table.rows});
    table.places.clear();
    table.cells_begin = kPageBytes;
}

std::uint32_t DatabaseWriter::put_overflow(std::string_view content) {
    std::uint32_t first = 0;
    std::size_t link = 0;  // where the number of the next page goes
    while (!content.empty()) {
        const std::uint32_t number = next_page();
        const std::size_t page = pages_.size() - kPageBytes;
        if (first == 0) {
            first = number;
        } else {
            store(pages_.data() + link, number, kNumberBytes);
        }
        link = page;
        const std::size_t part = std::min(content.size(), kOverflowBytes);
        std::memcpy(pages_.data() + page + kNumberBytes, content.data(), part);
        content.remove_prefix(part);
    }
    return first;
}

std::uint32_t DatabaseWriter::put_interior_pages(std::vector<Child> children) {
    constexpr std::size_t kMostCellBytes = kNumberBytes + kMostVarintBytes + kPlaceBytes;
    constexpr std::size_t kMostChildren = (kPageBytes - kInteriorHeaderBytes) / kMostCellBytes;
    while (children.size() > 1) {
        std::vector<Child> parents;
        for (std::size_t begin = 0; begin < children.size();) {
            std::size_t end = std::min(begin + kMostChildren, children.size());
            end -= children.size() - end == 1 ? 1 : 0;  // a page has at least two children
            const std::uint32_t number = next_page();
            char* const page = pages_.data() + pages_.size() - kPageBytes;
            std::size_t cells = kPageBytes;
            for (std::size_t child = begin; child + 1 < end; ++child) {
                cells -= kNumberBytes + varint_bytes(children[child].last_row);
                store(page + cells, children[child].page, kNumberBytes);
                put_varint(page + cells + kNumberBytes, children[child].last_row);
                store(page + kInteriorHeaderBytes + (child - begin) * kPlaceBytes, cells, kPlaceBytes);
            }
            page[0] = static_cast<char>(kTableInterior);
            store(page + 3, end - begin - 1, 2);
            store(page + 5, cells, 2);
            store(page + 8, children[end - 1].page, kNumberBytes);
            parents.push_back({number, children[end - 1].last_row});
            begin = end;
        }
        children = std::move(parents);
    }
    return children.front().page;
}

std::uint32_t DatabaseWriter::next_page() {
    ++page_count_;
    if (page_count_ == kLockedPage) {
        put_empty_page(pages_);
        ++page_count_;
    }
    put_empty_page(pages_);
    return page_count_;
}

void DatabaseWriter::finish() {
    std::vector<std::uint32_t> roots;
    for (Table& table : tables_) {
        if (!table.places.empty() || table.leaves.empty()) {
            put_leaf(table);
        }
        roots.push_back(put_interior_pages(std::move(table.leaves)));
    }
    write_first_page(roots);
}

void DatabaseWriter::write_first_page(const std::vector<std::uint32_t>& roots) {
    constexpr std::uint64_t kVersionOfSqlite = 3040000;  // whoever reads this takes any
    char* const page = first_page_.data();
    std::memcpy(page, "SQLite format 3", 16);
    store(page + 16, kPageBytes, 2);
    store(page + 18, 0x0101, 2);    // no write-ahead log
    store(page + 21, 0x402020, 3);  // fixed shares of a page that cells may take
    store(page + 24, 1, 4);         // the file changed once
    store(page + 28, page_count_, 4);
    store(page + 40, 1, 4);  // the schema changed once
    store(page + 44, 4, 4);  // format of the schema
    store(page + 56, 1, 4);  // UTF-8
    store(page + 92, 1, 4);  // the number of pages is as of this change
    store(page + 96, kVersionOfSqlite, 4);
    char* const header = page + kFileHeaderBytes;
    std::size_t cells = kPageBytes;
    for (std::size_t table = 0; table < tables_.size(); ++table) {
        const std::string_view name = tables_[table].name;
        const std::string_view statement = tables_[table].statement;
        types_.clear();
        body_.clear();
        record_.clear();
        const auto put = [this](std::string_view text) {
            body_.put(text);
            types_.push_back(kFirstTextType + 2 * text.size());
        };
        put("table");
        put(name);
        put(name);
        types_.push_back(put_number(body_, roots[table]));
        put(statement);
        put_record(record_, types_, body_.text());
        cells -= varint_bytes(record_.size()) + varint_bytes(table + 1) + record_.size();
        char* const at = put_varint(put_varint(page + cells, record_.size()), table + 1);
        std::memcpy(at, record_.data(), record_.size());
        store(header + kLeafHeaderBytes + table * kPlaceBytes, cells, kPlaceBytes);
    }
    header[0] = static_cast<char>(kTableLeaf);
    store(header + 3, tables_.size(), 2);
    store(header + 5, cells, 2);
}

}  // namespace msmemscope
