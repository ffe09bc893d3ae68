// ATB's operators and kernels, told to the watch.
#pragma once

#include <cstdint>

#include "core/format/record.h"
#include "sources/ascend/atb/strings.h"

namespace msmemscope::atb {

// The name by which --watch knows an operator or kernel: its folder without the first part. The folder of a kernel also
// loses its last part. Example: "0/0_GraphOperation/1_ElewiseOperation" of
// "0_1967120/0/0_GraphOperation/1_ElewiseOperation".
Characters watched_name_of(Characters folder, bool is_kernel) noexcept;

void watch_operator_begins(Characters folder, const void* variant_pack, format::Device device) noexcept;
void watch_operator_ends(Characters folder, const void* variant_pack, format::Device device) noexcept;

// Before or after a kernel, as the last part of its folder says. outputs: null where they cannot be read.
void watch_kernel(Characters folder, const void* inputs, const void* outputs, format::Device device) noexcept;

}  // namespace msmemscope::atb
