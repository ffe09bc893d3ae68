// A column of whole numbers, wherever they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace msmemscope {

struct Numbers {
    const char* values = nullptr;
    std::ptrdiff_t step = 0;  // bytes from one to the next; 0 where all rows have the same
    std::uint8_t width = 8;   // bytes of one
    bool is_signed = false;

    // The number of a row; of signed ones the bits.
    std::uint64_t at(std::size_t row) const {
        const char* const place = values + step * static_cast<std::ptrdiff_t>(row);
        switch (width) {
            case 1:
                return loaded<std::uint8_t, std::int8_t>(place);
            case 2:
                return loaded<std::uint16_t, std::int16_t>(place);
            case 4:
                return loaded<std::uint32_t, std::int32_t>(place);
            default:
                return loaded<std::uint64_t, std::int64_t>(place);
        }
    }

private:
    template <typename Unsigned, typename Signed>
    std::uint64_t loaded(const char* place) const {
        Unsigned value = 0;
        std::memcpy(&value, place, sizeof value);
        return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<Signed>(value))) : value;
    }
};

}  // namespace msmemscope
