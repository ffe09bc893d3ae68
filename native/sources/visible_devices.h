// Which device a number of a runtime means: a variable of the environment such as ASCEND_RT_VISIBLE_DEVICES="4,5" makes
// device 0 of a program device 4.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope {

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

// Those of a variable, read as the runtime reads it: when it is initialised or first given a device. The first reading
// holds.
class VisibleByVariable {
public:
    // has_other_names: a device may also be listed by a name that is no number.
    constexpr VisibleByVariable(const char* variable, bool has_other_names)
        : variable_(variable), has_other_names_(has_other_names) {}

    void read() noexcept;

    // The driver's number of a device of the runtime, -1 if there is none. Reads the variable if that was not done
    // before.
    int physical(int logical) noexcept;

private:
    enum class Progress : int { kUnread, kBeingRead, kRead };

    const char* variable_;
    bool has_other_names_;
    VisibleDevices devices_;
    std::atomic<Progress> progress_{Progress::kUnread};
};

}  // namespace msmemscope
