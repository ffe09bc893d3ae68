#include "sources/ascend/acl/visible_devices.h"

#include "sources/visible_devices.h"

namespace msmemscope::acl {
namespace {

VisibleByVariable visible("ASCEND_RT_VISIBLE_DEVICES", false);

}  // namespace

void read_visible_devices() noexcept { visible.read(); }

int physical_device(int logical) noexcept { return visible.physical(logical); }

}  // namespace msmemscope::acl
