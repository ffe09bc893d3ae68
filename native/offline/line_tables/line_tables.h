// Line numbers of bytecode offsets, from the line tables of CPython 3.10 and later.
//
// The recorder copies a code object's table as it is. Readers ask here, so that no line is computed inside the observed
// process. Both formats describe a code object from its first bytecode on, entry after entry:
//
// - 3.10 (PEP 626, `co_linetable`): pairs of an unsigned bytecode delta in bytes and a signed line delta. -128 means
// "no
//   line".
// - 3.11 and later (PEP 657, the location table): each entry has a first byte, then the operands of its code. The first
//   byte is 1, four bits of code, and three bits of length in code units minus one. Further bytes have the top bit
//   clear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace msmemscope {

// How a table is to be read.
enum class LineTable { kPython310, kPython311 };

// The line of the instruction at an offset, in bytes from the start of the bytecode. None if it has no line, or if the
// table ends before it. Any bytes are survived: a damaged table gives some line or none.
std::optional<std::int64_t> line_of_offset(LineTable format, const unsigned char* table, std::size_t bytes,
                                           std::int64_t first_line, std::uint64_t offset) noexcept;

}  // namespace msmemscope
