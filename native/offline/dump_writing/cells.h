// Cells of a table: columns of numbers, and texts that are put together from parts.
//
// Python says which parts a text has and what they contain, once for CSV files and databases (formats/dump/rows.py).
// Nothing here knows what a row is about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "offline/dump_writing/byte_buffer.h"
#include "offline/dump_writing/keyed_texts.h"
#include "offline/dump_writing/numbers.h"

namespace msmemscope {

enum class ValueForm : std::uint8_t { kNone, kDecimal, kHexadecimal, kKey };

// A part of a text: a value between two texts that are the same in all rows.
struct TextPart {
    std::string before;  // as the form has them
    std::string behind;
    bool is_quoted = false;  // one of them makes quotes necessary
    ValueForm form = ValueForm::kNone;
    Numbers values;
    const KeyedTexts* texts = nullptr;    // of kKey: a key without a text leaves the part out
    const std::uint8_t* where = nullptr;  // whether a row has the part; null: all have it
};

struct CellColumn {
    bool is_text = false;
    Numbers numbers;                             // unless it is a text
    std::vector<std::vector<TextPart>> shapes;   // what texts are made of
    const std::uint8_t* shape_of_row = nullptr;  // null: all rows have the first
    std::vector<TextPart> otherwise;             // of rows without any part of their shape
};

// Rows of a table: all of them, or chosen ones.
struct RowChoice {
    const std::uint32_t* chosen = nullptr;  // null: all
    std::size_t count = 0;

    std::size_t at(std::size_t place) const { return chosen == nullptr ? place : chosen[place]; }
};

struct PutText {
    bool is_null = true;  // no part was there
    bool is_quoted = false;
};

// Appends the text of a cell.
PutText put_cell_text(ByteBuffer& target, const CellColumn& column, std::size_t row);

void put_decimal(ByteBuffer& target, std::uint64_t number, bool is_signed);

// Appends rows of a CSV file, from a place on until there are about so many bytes. Returns the place of the next row.
std::size_t put_csv_rows(ByteBuffer& target, const std::vector<CellColumn>& columns, const RowChoice& rows,
                         std::size_t begin, std::size_t most_bytes);

}  // namespace msmemscope
