// NPUs, for those who know no vendor.
#pragma once

#include "core/writer/device_support.h"

namespace msmemscope::ascend {

extern const DeviceSupport kNpuSupport;

}  // namespace msmemscope::ascend
