// Where chosen rows of a CSV dump lie, and where an attribute goes into them; for writing results back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace msmemscope {

// The rows to look for.
struct RowChoice {
    const std::uint64_t* ids;  // ascending; null for all rows, whatever they begin with
    std::size_t id_count;
    std::uint64_t process_id;
    // Places of these columns among all, from 0.
    int event_column;
    int process_column;
    int attributes_column;
};

// One element per row whose ID is chosen, in the order of the rows.
struct ChosenRows {
    std::vector<std::int64_t> begin;  // of the row
    std::vector<std::int64_t> id;     // its place in RowChoice::ids; -1 if all rows are chosen
    // Where another attribute goes in: before the closing brace. It is -1 unless all of this holds:
    // - the row is a MALLOC of the process;
    // - its attributes are the first quoted field, `"{...}"`;
    // - they contain nothing of the word "inefficient".
    std::vector<std::int64_t> place;
    // Where the last row begins: the content may end within it. Equal to the length if a line feed stands at the end.
    std::int64_t end = 0;
};

// Finds rows. They begin at 0 and after each line feed outside of quotes. With is_last nothing follows the content, so
// its last row is complete, too.
ChosenRows choose_rows(std::string_view content, const RowChoice& choice, bool is_last);

}  // namespace msmemscope
