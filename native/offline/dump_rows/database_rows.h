// Rows of a DB dump as whole columns, out of the pages of its SQLite file; not for the observed process.
//
// SQLite and Python need two seconds of a processor to hand out a million rows one by one. The file format is frozen
// and documented (https://www.sqlite.org/fileformat2.html). This code understands only a table as this tool and SQLite
// write it today. Anything else makes a part of the table "not usual". Such a part is left to the reader in Python,
// which asks SQLite. Files can be damaged, or made to do harm. So every number of a file is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "offline/dump_rows/dump_rows.h"

namespace msmemscope {

// The leaves of a table, in the order of its rows.
struct DatabaseLeaves {
    std::vector<std::uint32_t> pages;
    std::vector<std::int64_t>
        last_rows;  // rowid that no row of the leaf is above; the largest number for the last leaf
    std::uint32_t page_bytes = 0;
    std::uint32_t usable_bytes = 0;  // of a page
};

// Finds the leaves of the table that begins at a page. Returns false if the file is not usual, or cannot be read.
bool find_database_leaves(int descriptor, std::uint32_t root_page, DatabaseLeaves& leaves);

// Which leaves to read.
struct DatabasePart {
    int descriptor;
    std::uint32_t page_bytes;
    std::uint32_t usable_bytes;
    const std::uint32_t* pages;
    std::size_t page_count;
};

// Reads the rows of some leaves; columns are the usual ones in their usual order. Returns false if any row is not
// usual. The texts of `rest` lack the brace in front of them.
bool read_database_rows(const DatabasePart& part, DumpRows& rows);

}  // namespace msmemscope
