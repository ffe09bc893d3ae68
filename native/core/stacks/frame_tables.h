// The unwind tables of a function as .eh_frame has them: instructions, operations of expressions, numbers, and what a
// common information entry (CIE) says. The DWARF standard, sections 6.4 and 7.24, and the LSB for the augmentation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace msmemscope {

enum Instruction : unsigned char {
    kNop = 0x00,
    kAdvance1 = 0x02,
    kAdvance2 = 0x03,
    kAdvance4 = 0x04,
    kOffsetExtended = 0x05,
    kRestoreExtended = 0x06,
    kUndefined = 0x07,
    kSameValue = 0x08,
    kRegister = 0x09,
    kRememberState = 0x0A,
    kRestoreState = 0x0B,
    kDefineCfa = 0x0C,
    kDefineCfaRegister = 0x0D,
    kDefineCfaOffset = 0x0E,
    kDefineCfaExpression = 0x0F,
    kExpression = 0x10,
    kOffsetExtendedSigned = 0x11,
    kDefineCfaSigned = 0x12,
    kDefineCfaOffsetSigned = 0x13,
    kValueOffset = 0x14,
    kValueOffsetSigned = 0x15,
    kValueExpression = 0x16,
    kNegateReturnAddressState = 0x2D,
    kArgumentsSize = 0x2E,
    // In the upper two bits, with an operand in the lower six:
    kAdvance = 0x40,
    kOffset = 0x80,
    kRestore = 0xC0,
};

enum Operation : unsigned char {
    kDereference = 0x06,
    kConstant1 = 0x08,
    kConstant1Signed = 0x09,
    kAnd = 0x1A,
    kMinus = 0x1C,
    kPlus = 0x22,
    kPlusConstant = 0x23,
    kShiftLeft = 0x24,
    kGreaterOrEqual = 0x2A,
    kLiteral0 = 0x30,
    kLiteral31 = 0x4F,
    kRegister0 = 0x70,
    kRegister31 = 0x8F,
};

struct Reader {
    const unsigned char* at;

    template <typename Number>
    Number number() noexcept {
        Number value;
        std::memcpy(&value, at, sizeof(value));
        at += sizeof(value);
        return value;
    }

    std::uint64_t uleb() noexcept { return leb(false); }
    std::int64_t sleb() noexcept { return static_cast<std::int64_t>(leb(true)); }

    const unsigned char* block() noexcept {
        const unsigned char* const start = at;
        const std::uint64_t bytes = uleb();
        at += bytes;
        return start;
    }

private:
    // A number in groups of seven bits, lowest first; bits beyond 64 are dropped.
    std::uint64_t leb(bool is_signed) noexcept {
        std::uint64_t value = 0;
        unsigned shift = 0;
        unsigned char byte = 0;
        do {
            byte = *at++;
            value |= shift < 64 ? static_cast<std::uint64_t>(byte & 0x7FU) << shift : 0;
            shift += 7;
        } while ((byte & 0x80U) != 0);
        if (is_signed && shift < 64 && (byte & 0x40U) != 0) {
            value |= ~std::uint64_t{0} << shift;
        }
        return value;
    }
};

// Bytes of a pointer that is encoded in a way of DW_EH_PE; 0 for those that have no fixed size.
inline std::size_t encoded_bytes(unsigned char encoding) noexcept {
    switch (encoding & 0x07U) {
        case 0x00:
        case 0x04:
            return 8;
        case 0x02:
            return 2;
        case 0x03:
            return 4;
        default:
            return 0;
    }
}

// A common information entry (CIE): the part of the tables that several functions share.
struct CommonEntry {
    Reader instructions{nullptr};
    const unsigned char* end = nullptr;
    std::uint64_t code_factor = 1;
    std::int64_t data_factor = 1;
    std::uint64_t return_register = 0;
    std::size_t pointer_bytes = 8;
    unsigned char pointer_encoding = 0;
    bool has_sizes = false;  // data of the augmentation begin with their size
    bool is_signal_frame = false;

    bool read(const unsigned char* entry) noexcept {
        Reader reader{entry};
        const auto length = reader.number<std::uint32_t>();
        end = reader.at + length;
        reader.at += sizeof(std::uint32_t);  // of the id
        const unsigned char version = *reader.at++;
        const auto* augmentation = reinterpret_cast<const char*>(reader.at);
        reader.at += std::strlen(augmentation) + 1;
        if (version != 1 && version != 3) {
            return false;
        }
        code_factor = reader.uleb();
        data_factor = reader.sleb();
        return_register = version == 1 ? *reader.at++ : reader.uleb();
        instructions = reader;
        if (*augmentation == '\0') {
            return true;
        }
        if (*augmentation++ != 'z') {
            return false;
        }
        has_sizes = true;
        const std::uint64_t bytes = reader.uleb();
        instructions.at = reader.at + bytes;
        for (; *augmentation != '\0'; ++augmentation) {
            switch (*augmentation) {
                case 'R':
                    pointer_encoding = *reader.at++;
                    pointer_bytes = encoded_bytes(pointer_encoding);
                    break;
                case 'P': {
                    const unsigned char encoding = *reader.at++;
                    const std::size_t size = encoded_bytes(encoding);
                    if (size == 0 || encoding == 0x50) {  // 0x50: aligned
                        return false;
                    }
                    reader.at += size;
                    break;
                }
                case 'L':
                    ++reader.at;
                    break;
                case 'S':
                    is_signal_frame = true;
                    break;
                case 'B':  // return addresses signed with the other key
                    break;
                default:
                    return false;
            }
        }
        return pointer_bytes != 0;
    }
};

}  // namespace msmemscope
