// Names of kernels by the numbers that the profiler's interface knows them by.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sources/kernel_names.h"

namespace msmemscope::kernel_launch {

// The number of a text, as the profiler's own hash has it: "Add" is 0xe141001138d9. Ends at a zero byte.
std::uint64_t name_hash(const char* text, std::size_t bytes) noexcept;

KernelNames& kernel_names() noexcept;

}  // namespace msmemscope::kernel_launch
