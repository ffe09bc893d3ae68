// Which files were mapped where, so that native stacks can be read afterwards.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// A file that is mapped for execution.
struct MappedFile {
    const char* path;  // empty: the program itself
    std::uint64_t load_bias;
    std::uint64_t start;
    std::uint64_t end;  // exclusive
    const unsigned char* build_id;
    std::size_t build_id_bytes;
    bool is_own;  // of this package: no frame of it belongs to the program
};

// Remembers the file; it is defined in the log as soon as native stacks are taken.
void note_module(const MappedFile& file) noexcept;

// Whether an address lies in a file of ours.
bool is_own_code(std::uint64_t address) noexcept;

// Whether an address lies in a library that is the program's malloc, by its name: libjemalloc, libtcmalloc,
// libmimalloc.
bool is_allocator_code(std::uint64_t address) noexcept;

// Whether an address lies in a library of torch.
#pragma GCC visibility push(default)
bool is_torch_code(std::uint64_t address) noexcept;
#pragma GCC visibility pop

// Defines what was noted and not yet defined in this process's capture.
void define_modules(const RecordingScope& scope) noexcept;

}  // namespace msmemscope
