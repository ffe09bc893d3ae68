// Rows of a CSV dump as whole columns, for analyses; not for the observed process.
//
// This code understands only rows as they are written nowadays:
// - the usual columns in their usual order;
// - attributes in the form `{key:value,...}`;
// - addresses with 0x.
//
// Anything else makes a piece "not usual", and the reader in Python takes it. That reader knows every age and every
// kind of damage, and takes its time. It defines what a row means (formats/dump/row_reader.py). Tests compare the two.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "offline/dump_rows/text_table.h"

namespace msmemscope {

// The number that stands for no value in a signed column.
inline constexpr std::int64_t kNoNumber = std::numeric_limits<std::int64_t>::min();

struct DumpRows {
    std::vector<std::uint64_t> sequence;
    std::vector<std::uint64_t> timestamp_ns;
    std::vector<std::int64_t> process_id;  // kNoNumber where it is N/A
    std::vector<std::uint32_t> thread_id;  // 0 where it is N/A
    std::vector<std::uint64_t> address;
    std::vector<std::uint8_t> has_address;
    std::vector<std::uint64_t> allocation_id;
    std::vector<std::int64_t> size;
    std::vector<std::uint64_t> extra;  // of a kernel: its stream in the upper half and its task
    std::vector<std::int64_t> total;
    std::vector<std::int64_t> used;
    std::vector<std::int64_t> process_used;
    std::vector<std::int64_t> device_used;
    std::vector<std::uint8_t> pinned;

    // Numbers of texts.
    std::vector<std::uint32_t> words;  // Event and Event Type with a comma between them
    std::vector<std::uint32_t> device;
    std::vector<std::uint32_t> name;
    std::vector<std::uint32_t> rest;        // the attributes that have no column above, without the closing brace
    std::vector<std::uint32_t> attributes;  // of rows whose attributes begin in another way, all of them
    std::vector<std::uint32_t> python_stack;
    std::vector<std::uint32_t> native_stack;

    TextTable words_texts;
    TextTable device_texts;
    TextTable name_texts;
    TextTable rest_texts;
    TextTable attributes_texts;
    TextTable python_stack_texts;
    TextTable native_stack_texts;
};

// The values that are read from the attributes of one row.
struct RowAttributes {
    std::uint64_t block = 0;
    std::int64_t size = kNoNumber;
    std::uint64_t stream = 0;
    std::uint64_t task = 0;
    std::array<std::int64_t, 4> totals{kNoNumber, kNoNumber, kNoNumber, kNoNumber};  // in the order of their columns
    bool is_pinned = false;
    std::string_view rest;
    std::string_view others;
};

// Appends them, with the numbers of the two texts.
void add_attributes(DumpRows& rows, const RowAttributes& attributes, std::uint32_t rest, std::uint32_t others);

// Makes room in the columns for about so many rows.
void reserve_rows(DumpRows& rows, std::size_t count);

// Reads whole rows, each with a line feed at its end. Returns false if any of them is not usual. The content must stay
// as long as the texts are used.
bool read_dump_rows(std::string_view content, DumpRows& rows);

}  // namespace msmemscope
