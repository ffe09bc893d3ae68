// The questions that a CUDA device answers.
#pragma once

#include "core/writer/device_support.h"

namespace msmemscope::cuda {

extern const DeviceSupport kCudaSupport;

}  // namespace msmemscope::cuda
