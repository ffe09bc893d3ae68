// Pages of a SQLite file, and what stands in them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

using Byte = unsigned char;

inline constexpr std::size_t kFileHeaderBytes = 100;
inline constexpr Byte kTableInterior = 5;
inline constexpr Byte kTableLeaf = 13;

inline std::uint32_t big_endian(const Byte* at, int bytes) {
    std::uint32_t value = 0;
    for (int place = 0; place < bytes; ++place) {
        value = value << 8 | at[place];
    }
    return value;
}

// Reads all of something, or nothing. Returns whether it was there.
bool read_at(int descriptor, void* target, std::size_t bytes, std::uint64_t offset);

// A place in bytes; functions return whether what was expected is there.
struct Bytes {
    const Byte* at;
    const Byte* end;

    std::size_t left() const { return static_cast<std::size_t>(end - at); }

    bool varint(std::uint64_t& value) {
        value = 0;
        for (int place = 0; place < 9; ++place) {
            if (at == end) {
                return false;
            }
            const Byte byte = *at++;
            if (place == 8) {
                value = value << 8 | byte;
                return true;
            }
            value = value << 7 | (byte & 0x7f);
            if ((byte & 0x80) == 0) {
                return true;
            }
        }
        return false;
    }

    bool skip(std::size_t count) {
        if (left() < count) {
            return false;
        }
        at += count;
        return true;
    }
};

// The B-tree part of a page.
struct Page {
    const Byte* begin;
    std::uint32_t header;  // where it begins: behind the file header on the first page
    std::uint32_t usable;

    Byte type() const { return begin[header]; }
    std::uint32_t cell_count() const { return big_endian(begin + header + 3, 2); }
    std::uint32_t right_child() const { return big_endian(begin + header + 8, 4); }

    bool cells_fit() const { return header + header_bytes() + std::uint64_t{cell_count()} * 2 <= usable; }

    // Where a cell begins; false if it lies outside.
    bool cell(std::uint32_t number, Bytes& bytes) const {
        const std::uint32_t offset = big_endian(begin + header + header_bytes() + std::size_t{number} * 2, 2);
        bytes = {begin + offset, begin + usable};
        return offset < usable;
    }

private:
    std::uint32_t header_bytes() const { return type() == kTableInterior ? 12 : 8; }
};

inline Page page_at(const Byte* begin, std::uint32_t number, std::uint32_t usable) {
    return {begin, number == 1 ? static_cast<std::uint32_t>(kFileHeaderBytes) : 0, usable};
}

}  // namespace msmemscope
