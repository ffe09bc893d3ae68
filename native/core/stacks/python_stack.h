// Where the core asks for the Python stack, without knowing Python.
#pragma once

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// Returns the id of the calling thread's Python stack, innermost frame first, at most `depth`
// frames; 0 if the thread runs no Python. Called without the GIL and under other people's locks:
// it must not take the GIL, allocate, or run Python.
using PythonStackWalker = std::uint32_t (*)(const RecordingScope& scope, std::uint32_t depth) noexcept;

// Whether the calling thread imports a module; under the same conditions.
using ImportQuestion = bool (*)() noexcept;

// Set by the bindings once a Python interpreter is there; nulls take them away.
__attribute__((visibility("default"))) void set_python_stack_walker(PythonStackWalker walker,
                                                                    ImportQuestion imports) noexcept;

__attribute__((visibility("default"))) std::uint32_t take_python_stack(const RecordingScope& scope,
                                                                       std::uint32_t depth) noexcept;

// False where that is not known, too.
bool python_imports() noexcept;

}  // namespace msmemscope
