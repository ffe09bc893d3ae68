// The walker that the bindings give to the core (see stacks/python_stack.h).
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// Frames of this code are left out of stacks: the collector's own, which the program did not write. The
// code objects must never be freed. At most kMostHiddenCodes; false beyond.
inline constexpr std::size_t kMostHiddenCodes = 32;
bool hide_code(PyCodeObject* code) noexcept;

// Reads the frames of the calling thread, the innermost first, into memory that is good until its next stack is taken.
// Returns how many.
std::size_t read_python_stack(const RecordingScope& scope, std::uint32_t depth,
                              const format::PythonFrame** frames) noexcept;

// Whether the calling thread imports a module.
bool thread_imports() noexcept;

std::uint32_t walk_python_stack(const RecordingScope& scope, std::uint32_t depth) noexcept;

}  // namespace msmemscope
