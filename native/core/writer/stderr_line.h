// Words of ours on the program's stderr, without harm to the program.
#pragma once

#include <cstddef>

namespace msmemscope {

// Remembers which file stderr is. To be called before the program can have put another one in its place.
void remember_stderr() noexcept;

// Whether descriptor 2 is still that file. A program that closed it may have opened a file of its own there.
__attribute__((visibility("default"))) bool is_stderr_the_same() noexcept;

// Writes a line, or nothing at all. It writes nothing in these cases:
// - stderr is another file by now;
// - writing would block (a full pipe, a stopped terminal);
// - nobody reads.
//
// No signal comes of it.
void write_stderr_line(const char* line, std::size_t bytes) noexcept;

}  // namespace msmemscope
