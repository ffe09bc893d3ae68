// Where a kernel is rehearsed: while a stage stands, the tensors of this thread's kernels are stand-ins.
#pragma once

#include <ATen/ATen.h>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "operator_abi.h"

namespace virtual_npu {

enum class StandIns {
    kShapes,           // tensors without data
    kZeros,            // the others have data
    kOnesAmongFloats,  // whole numbers and truth values stay 0: they may be positions
    kOnes,
};

struct ShapesDoNotSuffice : std::exception {
    const char* what() const noexcept override { return "this operator cannot be rehearsed without data"; }
};

struct TrueDataNeeded : std::exception {
    const char* what() const noexcept override { return "this operator cannot be rehearsed"; }
};

class Stage {
public:
    explicit Stage(StandIns kind);
    ~Stage();
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    at::Tensor stand_in_for(const aclTensor& tensor, at::ScalarType type);

private:
    StandIns kind_;
    // Whoever uses a tensor of the caller's finds what was written to it before.
    std::vector<std::pair<const aclTensor*, at::Tensor>> tensors_;
    std::optional<c10::impl::ForceDispatchKeyGuard> routed_;
};

}  // namespace virtual_npu
