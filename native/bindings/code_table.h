// Code object -> code id, without the GIL and without keeping the code object alive.
#pragma once

#include <Python.h>

#include <cstdint>

#include "core/writer/recorder.h"

namespace msmemscope {

// Id of the code object, which is defined in the log when first met. The caller's thread runs a
// frame of it, so it cannot go away meanwhile.
std::uint32_t code_id_of(const RecordingScope& scope, PyCodeObject* code) noexcept;

// To be called when a code object is destroyed: its address may come back as another one.
void forget_code(PyCodeObject* code) noexcept;

// Changes whenever a code object that was seen in a stack is gone. Then everything is void that was remembered of
// stacks by addresses.
std::uint64_t code_generation() noexcept;

// Id of a Python string as text; 0 if it is no string.
std::uint32_t string_id_of(const RecordingScope& scope, PyObject* text) noexcept;

}  // namespace msmemscope
