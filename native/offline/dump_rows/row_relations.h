// What rows of a dump have to do with rows before them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// What a row means here.
enum class RowRole : std::uint8_t {
    kNone = 0,
    kMalloc = 1,
    kFree = 2,
    kAccess = 3,
    kOperatorStart = 4,
    kOperatorEnd = 5
};

// For each FREE and ACCESS with an allocation id (0: none) the sequence of the latest MALLOC before it that has the
// same id; of a FREE only if that block was not freed in between. 0 where there is none, and for other rows.
void find_blocks(const RowRole* roles, const std::uint64_t* allocation_ids, const std::uint64_t* sequences,
                 std::size_t count, std::uint64_t* found);

// For each row the name of the outermost operator that runs on its thread, its own start included; 0 where none does.
// An end without a start, as at the begin of what was recorded, counts for nothing.
void find_outermost_operators(const RowRole* roles, const std::uint32_t* threads, const std::uint32_t* names,
                              std::size_t count, std::uint32_t* found);

}  // namespace msmemscope
