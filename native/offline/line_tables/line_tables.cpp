#include "line_tables.h"

#include <algorithm>

namespace msmemscope {
namespace {

constexpr std::uint64_t kCodeUnitBytes = 2;
constexpr std::int64_t kNoLine310 = -128;

// Codes of the location table. 0 to 9 are short forms, without a line change. Each of 10 to 12 is a one line form, for
// a delta of 0 to 2 lines. Then come those below.
constexpr unsigned kFirstOneLineCode = 10;
constexpr unsigned kNoColumnsCode = 13;
constexpr unsigned kLongCode = 14;
constexpr unsigned kNoLocationCode = 15;

// Of longer tables, which no program has, the begin is read: a damaged log may ask for each of a million frames.
constexpr std::size_t kLongestTable = std::size_t{1} << 20U;

// The most of a line delta, six bits each: the recorder and CPython know lines of 32 bits.
constexpr std::size_t kVarintBytes = 6;

// Six bits per byte, least significant first, 64 marking that more follow; bit 0 is the sign.
std::int64_t signed_varint(const unsigned char* place, const unsigned char* end) noexcept {
    std::uint64_t value = 0;
    for (std::size_t index = 0; index < kVarintBytes && place + index < end; ++index) {
        value |= static_cast<std::uint64_t>(place[index] & 63U) << (6 * index);
        if ((place[index] & 64U) == 0) {
            break;
        }
    }
    const auto size = static_cast<std::int64_t>(value >> 1U);
    return (value & 1U) != 0 ? -size : size;
}

std::int64_t line_delta(unsigned code, const unsigned char* operands, const unsigned char* end) noexcept {
    if (code == kNoColumnsCode || code == kLongCode) {
        return signed_varint(operands, end);
    }
    return code >= kFirstOneLineCode && code < kNoColumnsCode ? static_cast<std::int64_t>(code - kFirstOneLineCode) : 0;
}

std::optional<std::int64_t> line_311(const unsigned char* table, const unsigned char* end, std::int64_t line,
                                     std::uint64_t offset) noexcept {
    std::uint64_t described = 0;
    for (const unsigned char* place = table; place < end; ++place) {
        // Only the first byte of an entry has the top bit set.
        if ((*place & 128U) == 0) {
            continue;
        }
        const unsigned code = (*place >> 3U) & 15U;
        line += line_delta(code, place + 1, end);
        described += ((*place & 7U) + 1) * kCodeUnitBytes;
        if (described > offset) {
            return code == kNoLocationCode ? std::nullopt : std::optional(line);
        }
    }
    return std::nullopt;
}

std::optional<std::int64_t> line_310(const unsigned char* table, const unsigned char* end, std::int64_t line,
                                     std::uint64_t offset) noexcept {
    std::uint64_t described = 0;
    for (const unsigned char* place = table; end - place >= 2; place += 2) {
        const std::int64_t delta = static_cast<signed char>(place[1]);
        line += delta == kNoLine310 ? 0 : delta;
        described += place[0];
        if (described > offset) {
            return delta == kNoLine310 ? std::nullopt : std::optional(line);
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> line_of_offset(LineTable format, const unsigned char* table, std::size_t bytes,
                                           std::int64_t first_line, std::uint64_t offset) noexcept {
    const unsigned char* const end = table + std::min(bytes, kLongestTable);
    return format == LineTable::kPython310 ? line_310(table, end, first_line, offset)
                                           : line_311(table, end, first_line, offset);
}

}  // namespace msmemscope
