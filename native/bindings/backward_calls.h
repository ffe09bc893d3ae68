// The line of the program for which the threads of torch's backward engine work. They run no Python of their own, while
// the thread that called backward() waits.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "core/format/definition.h"

namespace msmemscope {

// Has each backward pass note the stack of its caller. engine_type: the class of torch's engine. Nothing of it changes
// but which C function its method calls. False if it is not as it is known to be. With the GIL held.
bool note_backward_calls(PyObject* engine_type);

// Id of the Python stack that called the backward pass which the calling thread works for. It is 0 if the thread is
// none of the engine's. It is also 0 if passes run at once that were called from different places, because nobody says
// which one the thread works for.
std::uint32_t backward_caller() noexcept;

// Copies at most `capacity` frames of that stack, the innermost first. Returns how many; 0 if the pass has ended.
std::size_t copy_backward_caller(format::PythonFrame* frames, std::size_t capacity) noexcept;

}  // namespace msmemscope
