// Which library asked the driver for memory: the name of its file. The main program, its Python, foreign functions
// (libffi) and PyTorch's pool ask for the program.
#pragma once

#include <cstdint>

namespace msmemscope::cuda {

// The number of the attributes of a block that the code at an address asked for; 0 if nobody knows the library.
std::uint32_t attributes_of_caller(const void* code) noexcept;

}  // namespace msmemscope::cuda
