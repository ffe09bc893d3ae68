// Reads the unwind tables of one function, as far as the place of its frame depends on them. The format is that of the
// DWARF standard, section 6.4, in its LSB variant .eh_frame. The unwinder steps out of a frame by reading saved
// registers. They lie at an offset from the canonical frame address (CFA), or where an expression leads.
#include "core/stacks/frame_step.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/stacks/frame_tables.h"
#include "core/writer/keep_errno.h"

namespace msmemscope {
namespace {

constexpr std::uint64_t kPageBytes = 4096;  // the smallest that there is

#if defined(__x86_64__)
constexpr std::uint64_t kRegisters = 17;
constexpr std::uint64_t kStackPointer = 7;
constexpr std::uint64_t kPreserved = 1U << 3U | 1U << 6U | 0xFU << 12U | 1U << 16U;  // rbx, rbp, r12 to r15, rip
#elif defined(__aarch64__)
constexpr std::uint64_t kRegisters = 32;
constexpr std::uint64_t kStackPointer = 31;
constexpr std::uint64_t kPreserved = 0xFFFU << 19U;  // x19 to x30
#endif

class Frame {
public:
    Frame(_Unwind_Context* context, const FrameWalk& walk, ReadableMemory& memory) noexcept
        : context_(context), walk_(walk), memory_(memory) {}

    bool read(const CommonEntry& common, Reader instructions, const unsigned char* end) noexcept {
        return run(common, common.instructions, common.end) && run(common, instructions, end);
    }

    bool can_be_left() noexcept {
        if (is_outermost_) {
            return true;
        }
        std::uint64_t address = 0;
        if (!(cfa_.expression == nullptr ? register_value(cfa_.base, address)
                                         : evaluate(cfa_.expression, nullptr, address))) {
            return false;
        }
        if (cfa_.expression == nullptr) {
            address += static_cast<std::uint64_t>(cfa_.offset);
        }
        if (!memory_.has_word(address + static_cast<std::uint64_t>(lowest_)) ||
            !memory_.has_word(address + static_cast<std::uint64_t>(highest_))) {
            return false;
        }
        for (std::size_t index = 0; index < expressions_; ++index) {
            std::uint64_t place = 0;
            if (!evaluate(expression_[index].text, &address, place) ||
                (!expression_[index].is_value && !memory_.has_word(place))) {
                return false;
            }
        }
        return true;
    }

private:
    struct CfaRule {
        std::uint64_t base;
        std::int64_t offset;
        const unsigned char* expression;  // or null
    };
    struct Expression {
        const unsigned char* text;
        bool is_value;  // of the register itself, not of its place
    };
    static constexpr std::size_t kMostExpressions = 32;
    static constexpr std::size_t kMostStates = 8;
    static constexpr std::size_t kMostOperands = 16;

    void saved_at(std::int64_t offset) noexcept {
        lowest_ = std::min(lowest_, offset);
        highest_ = std::max(highest_, offset);
    }

    bool add_expression(Reader& reader, bool is_value) noexcept {
        reader.uleb();
        if (expressions_ == kMostExpressions) {
            return false;
        }
        expression_[expressions_++] = Expression{reader.block(), is_value};
        return true;
    }

    // Runs instructions up to the address that was looked up; false for one that is not known.
    bool run(const CommonEntry& common, Reader reader, const unsigned char* end) noexcept {
        std::uint64_t location = walk_.tables.function;
        while (reader.at < end && location <= walk_.tables.address) {
            const unsigned char instruction = *reader.at++;
            const unsigned char low = instruction & 0x3FU;
            switch (instruction & 0xC0U) {
                case kAdvance:
                    location += low * common.code_factor;
                    continue;
                case kOffset:
                    saved_at(static_cast<std::int64_t>(reader.uleb()) * common.data_factor);
                    continue;
                case kRestore:
                    continue;
                default:
                    break;
            }
            switch (instruction) {
                case kNop:
                case kNegateReturnAddressState:
                    break;
                case kAdvance1:
                    location += reader.number<std::uint8_t>() * common.code_factor;
                    break;
                case kAdvance2:
                    location += reader.number<std::uint16_t>() * common.code_factor;
                    break;
                case kAdvance4:
                    location += reader.number<std::uint32_t>() * common.code_factor;
                    break;
                case kOffsetExtended:
                    reader.uleb();
                    saved_at(static_cast<std::int64_t>(reader.uleb()) * common.data_factor);
                    break;
                case kOffsetExtendedSigned:
                    reader.uleb();
                    saved_at(reader.sleb() * common.data_factor);
                    break;
                case kUndefined:
                    is_outermost_ = reader.uleb() == common.return_register || is_outermost_;
                    break;
                case kRestoreExtended:
                case kSameValue:
                case kArgumentsSize:
                    reader.uleb();
                    break;
                case kRegister:
                case kValueOffset:
                case kValueOffsetSigned:  // skipped alike: the last byte of a number is the one without the upper bit
                    reader.uleb();
                    reader.uleb();
                    break;
                case kRememberState:
                    if (states_ == kMostStates) {
                        return false;
                    }
                    state_[states_++] = cfa_;
                    break;
                case kRestoreState:
                    if (states_ == 0) {
                        return false;
                    }
                    cfa_ = state_[--states_];
                    break;
                case kDefineCfa:
                    cfa_.base = reader.uleb();
                    cfa_.offset = static_cast<std::int64_t>(reader.uleb());
                    cfa_.expression = nullptr;
                    break;
                case kDefineCfaSigned:
                    cfa_.base = reader.uleb();
                    cfa_.offset = reader.sleb() * common.data_factor;
                    cfa_.expression = nullptr;
                    break;
                case kDefineCfaRegister:
                    cfa_.base = reader.uleb();
                    cfa_.expression = nullptr;
                    break;
                case kDefineCfaOffset:
                    cfa_.offset = static_cast<std::int64_t>(reader.uleb());
                    break;
                case kDefineCfaOffsetSigned:
                    cfa_.offset = reader.sleb() * common.data_factor;
                    break;
                case kDefineCfaExpression:
                    cfa_.expression = reader.block();
                    break;
                case kExpression:
                case kValueExpression:
                    if (!add_expression(reader, instruction == kValueExpression)) {
                        return false;
                    }
                    break;
                default:
                    return false;
            }
        }
        return true;
    }

    bool register_value(std::uint64_t number, std::uint64_t& value) noexcept {
        if (number == kStackPointer) {
            value = static_cast<std::uint64_t>(_Unwind_GetCFA(context_));
            return true;
        }
        // The unwinder has no value for the others, and would read through a null pointer.
        if (number >= kRegisters || (!walk_.all_registers && (kPreserved >> number & 1U) == 0)) {
            return false;
        }
        value = static_cast<std::uint64_t>(_Unwind_GetGR(context_, static_cast<int>(number)));
        return true;
    }

    // Evaluates an expression of the kinds that compilers and the C library write; false for others.
    bool evaluate(const unsigned char* text, const std::uint64_t* first, std::uint64_t& result) noexcept {
        Reader reader{text};
        const std::uint64_t bytes = reader.uleb();
        const unsigned char* const end = reader.at + bytes;
        std::uint64_t stack[kMostOperands];
        std::size_t count = 0;
        if (first != nullptr) {
            stack[count++] = *first;
        }
        while (reader.at < end) {
            const unsigned char operation = *reader.at++;
            std::uint64_t value = 0;
            if (operation >= kLiteral0 && operation <= kLiteral31) {
                value = operation - kLiteral0;
            } else if (operation >= kRegister0 && operation <= kRegister31) {
                const auto offset = static_cast<std::uint64_t>(reader.sleb());
                if (!register_value(operation - kRegister0, value)) {
                    return false;
                }
                value += offset;
            } else if (operation == kConstant1) {
                value = reader.number<std::uint8_t>();
            } else if (operation == kConstant1Signed) {
                value = static_cast<std::uint64_t>(std::int64_t{reader.number<std::int8_t>()});
            } else if (operation == kDereference || operation == kPlusConstant) {
                if (count == 0) {
                    return false;
                }
                value = stack[--count];
                if (operation == kPlusConstant) {
                    value += reader.uleb();
                } else if (memory_.has_word(value)) {
                    std::memcpy(&value, reinterpret_cast<const void*>(value), sizeof(value));
                } else {
                    return false;
                }
            } else if (count < 2) {
                return false;
            } else {
                const std::uint64_t right = stack[--count];
                const std::uint64_t left = stack[--count];
                switch (operation) {
                    case kAnd:
                        value = left & right;
                        break;
                    case kMinus:
                        value = left - right;
                        break;
                    case kPlus:
                        value = left + right;
                        break;
                    case kShiftLeft:
                        value = right < 64 ? left << right : 0;
                        break;
                    case kGreaterOrEqual:
                        value = static_cast<std::int64_t>(left) >= static_cast<std::int64_t>(right) ? 1 : 0;
                        break;
                    default:
                        return false;
                }
            }
            if (count == kMostOperands) {
                return false;
            }
            stack[count++] = value;
        }
        if (count == 0) {
            return false;
        }
        result = stack[count - 1];
        return true;
    }

    _Unwind_Context* context_;
    const FrameWalk& walk_;
    ReadableMemory& memory_;
    CfaRule cfa_{kStackPointer, 0, nullptr};
    CfaRule state_[kMostStates];
    std::size_t states_ = 0;
    Expression expression_[kMostExpressions];
    std::size_t expressions_ = 0;
    // Where registers are saved, from the CFA.
    std::int64_t lowest_ = -8;
    std::int64_t highest_ = -8;
    bool is_outermost_ = false;
};

}  // namespace

bool ReadableMemory::has_byte(std::uint64_t address) noexcept {
    const std::uint64_t page = address & ~(kPageBytes - 1);
    if (page == page_) {
        return true;
    }
    // The kernel reads the set of signals before it finds that there is no such way to change the mask. A filter of
    // system calls lets this one pass if any, and nothing changes.
    constexpr int kNoWay = -1;
    const KeepErrno keep_errno;
    const long done = syscall(SYS_rt_sigprocmask, kNoWay, page, nullptr, sizeof(std::uint64_t));
    if (done != -1 || errno != EINVAL) {
        return false;
    }
    page_ = page;
    return true;
}

bool ReadableMemory::has_word(std::uint64_t address) noexcept {
    const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    if (address >= here && address < stack_end_ && stack_end_ - address >= sizeof(std::uint64_t)) {
        return true;
    }
    const std::uint64_t last = address + sizeof(std::uint64_t) - 1;
    return last > address && has_byte(address) && has_byte(last);
}

bool can_step_out(_Unwind_Context* context, FrameWalk& walk, ReadableMemory& memory) noexcept {
    if (walk.tables.description == nullptr) {
        return false;
    }
    Reader reader{walk.tables.description};
    const auto length = reader.number<std::uint32_t>();
    const unsigned char* const end = reader.at + length;
    const unsigned char* const common_at = reader.at;
    CommonEntry common;
    if (!common.read(common_at - reader.number<std::int32_t>())) {
        return false;
    }
    reader.at += 2 * common.pointer_bytes;  // where the function is
    if (common.has_sizes) {
        const std::uint64_t bytes = reader.uleb();
        reader.at += bytes;
    }
    Frame frame(context, walk, memory);
    const bool can = frame.read(common, reader, end) && frame.can_be_left();
    walk.all_registers = walk.all_registers || common.is_signal_frame;
    return can;
}

}  // namespace msmemscope
