// The driver's numbers of NPUs as devices.
#pragma once

#include "core/writer/recorder.h"

namespace msmemscope {

constexpr format::Device npu(int number) noexcept { return format::device_of(format::DeviceKind::kNpu, number); }
inline bool observes_npu(int number) noexcept { return recorder::settings().observes(npu(number)); }

}  // namespace msmemscope
