// The records of an ATB operator and of a kernel.
#pragma once

#include <cstdint>

#include "core/format/record.h"
#include "sources/ascend/atb/strings.h"

namespace msmemscope::atb {

// Which kinds of events are collected now.
bool collects_operators() noexcept;
bool collects_kernels() noexcept;
bool collects_accesses() noexcept;

// The memory that an operator was given for its own use.
struct OperatorBuffers {
    std::uint64_t workspace;
    std::uint64_t workspace_bytes;
    std::uint64_t intermediate;
    std::uint64_t intermediate_bytes;
};

// An operator that has begun; written is false where nothing was recorded of it.
struct OperatorCall {
    bool written;
    bool watched;
    // Of the operator around it.
    OperatorBuffers outer;
    format::Device device;
    std::uint32_t name_id;
    std::uint32_t attribute_id;
    // Ids are valid in one epoch.
    std::uint64_t epoch;
};

// The device of the calling thread; kDeviceNone if it has none.
format::Device device_of_operator() noexcept;

struct OperatorTexts {
    const char* name;
    Characters folder;
};

// Records the start of an operator, or its end, and the tensors of its pack.
OperatorCall record_operator_start(const OperatorTexts& texts, const void* variant_pack) noexcept;
void record_operator_end(const OperatorCall& call, const void* variant_pack) noexcept;

// Records a kernel's start or end, as the folder's last part says, and its tensors.
void record_kernel(Characters folder, const void* input_tensors, const void* output_tensors) noexcept;

// The last part but one of a kernel's folder ("0_1967120/1/0_GraphOperation/0_AddF16Kernel/before"), which is its name.
// Empty if the folder does not end in /before or /after.
struct KernelPlace {
    Characters name;
    bool is_before;
};
KernelPlace kernel_place_of(Characters folder) noexcept;

}  // namespace msmemscope::atb
