// A model of the driver: how much memory it has left, and which addresses it gives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "offline/replay/allocator_settings.h"

namespace msmemscope::replay {

class DriverModel {
public:
    static constexpr std::uint64_t kFirstAddress = 1ULL << 40;

    DriverModel(std::uint64_t capacity_bytes, AddressOrder order);

    // Nothing is taken any more; addresses begin here.
    void reset(std::uint64_t first_address = kFirstAddress);
    // Takes bytes, whether there are so many or not; and addresses, as far as nobody has them.
    void hold_bytes(std::uint64_t bytes) { taken_bytes_ += bytes; }
    void hold(std::uint64_t address, std::uint64_t bytes);

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
