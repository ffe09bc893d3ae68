// Blocks in use as a stack of bytes over time: each lies on those that were allocated before it.
//
// For pictures, not for the observed process. Where a block ends, those above it come down; what lies still between two
// such moments is a piece, a rectangle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace msmemscope {

struct StackPieces {
    // One entry per piece.
    std::vector<std::uint32_t> blocks;  // index of the block
    std::vector<std::uint32_t> begins;  // row from which on it lies there
    std::vector<std::uint32_t> ends;    // row until which it does
    std::vector<std::int64_t> lows;     // bytes below it
};

// Stacks blocks, which stand in the order of their begins. The end of a block that is never freed is the largest
// number; one that does not lie behind the begin has no piece. Nothing if there would be more pieces than `most`.
std::optional<StackPieces> stack_blocks(const std::uint32_t* begins, const std::uint32_t* ends,
                                        const std::int64_t* sizes, std::size_t count, std::size_t most);

}  // namespace msmemscope
