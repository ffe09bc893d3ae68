// A model of the driver: how much memory it has left, and which addresses it gives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "offline/replay/allocator_settings.h"

namespace msmemscope::replay {

class DriverModel {
public:
    DriverModel(std::uint64_t capacity_bytes, AddressOrder order);

    bool take_bytes(std::uint64_t bytes);
    void give_bytes(std::uint64_t bytes) { taken_bytes_ -= bytes; }

    // Addresses are multiples of 2 MiB; they are a matter of their own, as with virtual memory. Nothing if none are
    // left.
    std::optional<std::uint64_t> place(std::uint64_t bytes);
    void vacate(std::uint64_t address, std::uint64_t bytes);

private:
    std::uint64_t capacity_bytes_;
    std::uint64_t taken_bytes_ = 0;
    AddressOrder order_;
    std::map<std::uint64_t, std::uint64_t> gaps_;  // address -> bytes
};

}  // namespace msmemscope::replay
