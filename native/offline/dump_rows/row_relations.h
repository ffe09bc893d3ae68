// How rows of a dump relate to rows before them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

// The meaning of a row here.
enum class RowRole : std::uint8_t {
    kNone = 0,
    kMalloc = 1,
    kFree = 2,
    kAccess = 3,
    kOperatorStart = 4,
    kOperatorEnd = 5
};

// For each FREE and ACCESS with an allocation id (0: none) finds the sequence of a MALLOC. It is the latest one before
// the row that has the same id. For a FREE it counts only if that block was not freed in between. Otherwise, and for
// other rows, the result is 0.
void find_blocks(const RowRole* roles, const std::uint64_t* allocation_ids, const std::uint64_t* sequences,
                 std::size_t count, std::uint64_t* found);

// For each row finds the name of the outermost operator that runs on its thread, its own start included. The name is 0
// if none runs. If an end has no start, as at the beginning of the recording, it counts for nothing.
void find_outermost_operators(const RowRole* roles, const std::uint32_t* threads, const std::uint32_t* names,
                              std::size_t count, std::uint32_t* found);

}  // namespace msmemscope
