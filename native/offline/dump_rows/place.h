// Reading a text of a dump from left to right.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace msmemscope {

// Longer numbers do not fit into 64 bits, or only just: they are left to the other reader.
inline constexpr int kMostDigits = 19;
inline constexpr std::uint64_t kLargestNumber = std::numeric_limits<std::int64_t>::max();
inline constexpr int kMostHexadecimalDigits = 16;
inline bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// A place in the content. Every function returns whether what was expected stands there, and goes past it.
struct Place {
    const char* at;
    const char* end;

    bool skip(char letter) {
        if (at == end || *at != letter) {
            return false;
        }
        ++at;
        return true;
    }

    bool skip(std::string_view text) {
        if (static_cast<std::size_t>(end - at) < text.size() || std::memcmp(at, text.data(), text.size()) != 0) {
            return false;
        }
        at += text.size();
        return true;
    }

    bool number(std::uint64_t& value) {
        const char* const begin = at;
        value = 0;
        while (at != end && is_digit(*at)) {
            value = value * 10 + static_cast<std::uint64_t>(*at++ - '0');
        }
        return at != begin && at - begin <= kMostDigits && value <= kLargestNumber;
    }

    bool signed_number(std::int64_t& value) {
        const bool is_negative = skip('-');
        std::uint64_t magnitude = 0;
        const bool is_number = number(magnitude);
        value = is_negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
        return is_number;
    }

    bool hexadecimal(std::uint64_t& value) {
        const char* const begin = at;
        value = 0;
        for (; at != end; ++at) {
            unsigned digit = 0;
            if (is_digit(*at)) {
                digit = static_cast<unsigned>(*at - '0');
            } else if ((*at | 0x20) >= 'a' && (*at | 0x20) <= 'f') {
                digit = static_cast<unsigned>((*at | 0x20) - 'a') + 10;
            } else {
                break;
            }
            value = value << 4 | digit;
        }
        return at != begin && at - begin <= kMostHexadecimalDigits;
    }

    std::string_view rest() const { return {at, static_cast<std::size_t>(end - at)}; }
};

inline Place place_in(std::string_view text) { return {text.data(), text.data() + text.size()}; }

}  // namespace msmemscope
