// A SQLite file that is written from its first page to its last, with tables whose rows only ever come behind each
// other.
//
// The format: https://www.sqlite.org/fileformat2.html. Pages come out in the order in which they lie in the file,
// except for the first one, which is known last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "offline/dump_writing/byte_buffer.h"
#include "offline/dump_writing/cells.h"

namespace msmemscope {

inline constexpr std::size_t kPageBytes = 4096;

class DatabaseWriter {
public:
    DatabaseWriter();

    // Begins a table; returns its number.
    std::size_t add_table(std::string name, std::string statement);

    // Appends rows, from a place on until there are about so many bytes of pages. Returns the place of the next row.
    std::size_t put_rows(std::size_t table, const std::vector<CellColumn>& columns, const RowChoice& rows,
                         std::size_t begin, std::size_t most_bytes);

    // Writes what is left of all tables, and then the first page.
    void finish();

    // Pages that were finished since it was cleared.
    ByteBuffer& pages() { return pages_; }

    // The first page of the file. It is known once the file is finished.
    const std::array<char, kPageBytes>& first_page() const { return first_page_; }

private:
    // A page below another one, and the last row that it leads to.
    struct Child {
        std::uint32_t page;
        std::uint64_t last_row;
    };

    struct Table {
        std::string name;
        std::string statement;
        std::uint64_t rows = 0;
        std::vector<Child> leaves;
        // The leaf that is being filled: cells from its end on, and where each begins.
        std::array<char, kPageBytes> cells{};
        std::size_t cells_begin = kPageBytes;
        std::vector<std::uint16_t> places;
    };

    void put_row(Table& table, const std::vector<CellColumn>& columns, std::size_t row);
    void put_leaf(Table& table);
    std::uint32_t put_interior_pages(std::vector<Child> children);
    std::uint32_t put_overflow(std::string_view content);
    // The number of the next page, and memory for it that holds zeros.
    std::uint32_t next_page();
    void write_first_page(const std::vector<std::uint32_t>& roots);

    std::vector<Table> tables_;
    std::uint32_t page_count_ = 1;
    ByteBuffer pages_;
    std::array<char, kPageBytes> first_page_{};
    // Of the row that is being made.
    ByteBuffer body_;
    ByteBuffer record_;
    std::vector<std::uint64_t> types_;
};

}  // namespace msmemscope
