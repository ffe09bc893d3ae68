// Which device a number of the runtime means: ASCEND_RT_VISIBLE_DEVICES="4,5" makes device 0 of a program device 4.
//
// Numbers of the driver are not translated; those that come from the runtime, and from frameworks above it, are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope::acl {

class VisibleDevices {
public:
    static constexpr std::size_t kMost = format::kDevicesPerKind;

    // Null or empty: every device, under its own number. False if the text is no list of numbers; then the same.
    bool parse(const char* text) noexcept;

    // -1 for a number that stands for no device.
    int physical(int logical) const noexcept {
        if (logical < 0 || (translates_ && static_cast<std::size_t>(logical) >= count_)) {
            return -1;
        }
        return translates_ ? devices_[logical] : logical;
    }

private:
    bool translates_ = false;
    std::size_t count_ = 0;
    std::int16_t devices_[kMost] = {};
};

// Reads the variable, as the runtime does when it is initialised or first given a device. The first reading holds.
void read_visible_devices() noexcept;

// The driver's number of a device of the runtime, -1 if there is none. Reads the variable if that was not done before.
__attribute__((visibility("default"))) int physical_device(int logical) noexcept;

}  // namespace msmemscope::acl
