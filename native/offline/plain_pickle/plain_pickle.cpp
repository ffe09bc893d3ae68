#include "offline/plain_pickle/plain_pickle.h"

#include <vector>

namespace msmemscope {
namespace {

enum Opcode : unsigned char {
    kProto = 0x80,
    kFrame = 0x95,
    kStop = '.',
    kMark = '(',
    kPop = '0',
    kPopMark = '1',
    kDup = '2',
    kNone = 'N',
    kTrue = 0x88,
    kFalse = 0x89,
    kEmptyDict = '}',
    kEmptyList = ']',
    kEmptyTuple = ')',
    kSetItem = 's',
    kSetItems = 'u',
    kAppend = 'a',
    kAppends = 'e',
    kTuple = 't',
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kMemoize = 0x94,
    kPut = 'q',
    kLongPut = 'r',
    kGet = 'h',
    kLongGet = 'j',
    kInt1 = 'K',
    kInt2 = 'M',
    kInt4 = 'J',
    kLong1 = 0x8a,
    kLong4 = 0x8b,
    kFloat = 'G',
    kText4 = 'X',
    kText1 = 0x8c,
    kText8 = 0x8d,
    kBytes4 = 'B',
    kBytes1 = 'C',
    kBytes8 = 0x8e
};

enum class Kind : unsigned char {
    kAbsent,  // of places of the memo
    kText,
    kNumber,
    kOther
};

// The memory that Python needs for an object, beyond its content. The figures are generous for every version.
constexpr std::uint64_t kListBytes = 80;
constexpr std::uint64_t kDictBytes = 240;
constexpr std::uint64_t kItemBytes = 56;  // of a dictionary
constexpr std::uint64_t kTupleBytes = 64;
constexpr std::uint64_t kNumberBytes = 40;
constexpr std::uint64_t kTextBytes = 72;
constexpr std::uint64_t kReferenceBytes = 10;  // in a list, or on the stack of the unpickler
constexpr std::uint64_t kMemoBytes = 16;
constexpr std::uint64_t kBytesPerLetter = 4;  // of a text with any letter beyond ASCII
constexpr std::size_t kNumberLength = 8;

class Walker {
public:
    explicit Walker(std::string_view content) : content_(content) {}

    PickleWalk walk() {
        for (;;) {
            walk_.place = at_;
            if (at_ == content_.size()) {
                return faulty(PickleFault::kEndsEarly);
            }
            const auto code = static_cast<unsigned char>(content_[at_++]);
            if (code == kStop) {
                return kinds_.empty() ? faulty(PickleFault::kNothingThere) : walk_;
            }
            const PickleFault fault = step(code);
            if (fault != PickleFault::kNone) {
                return faulty(fault);
            }
        }
    }

private:
    PickleWalk faulty(PickleFault fault) {
        walk_.fault = fault;
        return walk_;
    }

    PickleFault step(unsigned char code) {
        std::uint64_t number = 0;
        switch (code) {
            case kProto:
                return skip(1);
            case kFrame:
                return argument(8, number) && number <= left() ? PickleFault::kNone : PickleFault::kTooLong;
            case kMark:
                marks_.push_back(kinds_.size());
                walk_.object_bytes += kReferenceBytes;
                return PickleFault::kNone;
            case kPop:
                if (!marks_.empty() && marks_.back() == kinds_.size()) {
                    marks_.pop_back();
                    return PickleFault::kNone;
                }
                return take(1);
            case kPopMark:
                return to_mark(0) ? PickleFault::kNone : PickleFault::kNothingThere;
            case kDup:
                return above_mark() == 0 ? PickleFault::kNothingThere : push(kinds_.back(), 0);
            case kNone:
            case kTrue:
            case kFalse:
            case kEmptyTuple:
                return push(Kind::kOther, 0);
            case kEmptyDict:
                return push(Kind::kOther, kDictBytes);
            case kEmptyList:
                return push(Kind::kOther, kListBytes);
            case kSetItem:
                return set_item();
            case kSetItems:
                return set_items();
            case kAppend:
                walk_.object_bytes += kReferenceBytes;
                return above_mark() < 2 ? PickleFault::kNothingThere : take(1);
            case kAppends:
                return to_mark(1) ? PickleFault::kNone : PickleFault::kNothingThere;
            case kTuple:
                return to_mark(0) ? push(Kind::kOther, kTupleBytes) : PickleFault::kNothingThere;
            case kTuple1:
            case kTuple2:
            case kTuple3: {
                const std::size_t count = code - kTuple1 + 1U;
                return take(count) == PickleFault::kNone ? push(Kind::kOther, kTupleBytes + count * sizeof(void*))
                                                         : PickleFault::kNothingThere;
            }
            case kMemoize:
                return put(remembered_);
            case kPut:
                return argument(1, number) ? put(number) : PickleFault::kTooLong;
            case kLongPut:
                return argument(4, number) ? put(number) : PickleFault::kTooLong;
            case kGet:
                return argument(1, number) ? get(number) : PickleFault::kTooLong;
            case kLongGet:
                return argument(4, number) ? get(number) : PickleFault::kTooLong;
            case kInt1:
                return counted_number(skip(1));
            case kInt2:
                return counted_number(skip(2));
            case kInt4:
                return counted_number(skip(4));
            case kLong1:
                return argument(1, number) ? long_number(number) : PickleFault::kTooLong;
            case kLong4:
                return argument(4, number) ? long_number(number) : PickleFault::kTooLong;
            case kFloat:
                return skip(8) == PickleFault::kNone ? push(Kind::kOther, kNumberBytes) : PickleFault::kTooLong;
            case kText1:
                return argument(1, number) ? text(number) : PickleFault::kTooLong;
            case kText4:
                return argument(4, number) ? text(number) : PickleFault::kTooLong;
            case kText8:
                return argument(8, number) ? text(number) : PickleFault::kTooLong;
            case kBytes1:
                return argument(1, number) ? bytes(number) : PickleFault::kTooLong;
            case kBytes4:
                return argument(4, number) ? bytes(number) : PickleFault::kTooLong;
            case kBytes8:
                return argument(8, number) ? bytes(number) : PickleFault::kTooLong;
            default:
                return PickleFault::kNotPlain;
        }
    }

    std::uint64_t left() const { return content_.size() - at_; }

    PickleFault skip(std::uint64_t count) {
        if (count > left()) {
            return PickleFault::kTooLong;
        }
        at_ += count;
        return PickleFault::kNone;
    }

    // A number of so many bytes, the lowest first.
    bool argument(std::size_t size, std::uint64_t& value) {
        if (size > left()) {
            return false;
        }
        value = 0;
        for (std::size_t byte = 0; byte < size; ++byte) {
            value |= std::uint64_t{static_cast<unsigned char>(content_[at_ + byte])} << (8 * byte);
        }
        at_ += size;
        return true;
    }

    PickleFault push(Kind kind, std::uint64_t bytes) {
        kinds_.push_back(kind);
        walk_.object_bytes += bytes + kReferenceBytes;
        return PickleFault::kNone;
    }

    // The number of values above the latest mark. Nothing else can be taken.
    std::size_t above_mark() const { return kinds_.size() - (marks_.empty() ? 0 : marks_.back()); }

    PickleFault take(std::size_t count) {
        if (above_mark() < count) {
            return PickleFault::kNothingThere;
        }
        kinds_.resize(kinds_.size() - count);
        return PickleFault::kNone;
    }

    // Takes everything above the latest mark, below which so many objects must be, and the mark.
    bool to_mark(std::size_t below) {
        if (marks_.empty()) {
            return false;
        }
        const std::size_t mark = marks_.back();
        walk_.object_bytes += (kinds_.size() - mark) * kReferenceBytes;
        kinds_.resize(mark);
        marks_.pop_back();
        return above_mark() >= below;
    }

    static bool is_key(Kind kind) { return kind == Kind::kText || kind == Kind::kNumber; }

    PickleFault set_item() {
        if (above_mark() < 3) {
            return PickleFault::kNothingThere;
        }
        walk_.object_bytes += kItemBytes;
        return is_key(kinds_[kinds_.size() - 2]) ? take(2) : PickleFault::kKey;
    }

    PickleFault set_items() {
        const std::size_t count = marks_.empty() ? 0 : kinds_.size() - marks_.back();
        for (std::size_t pair = 0; pair + 1 < count; pair += 2) {
            if (!is_key(kinds_[marks_.back() + pair])) {
                return PickleFault::kKey;
            }
        }
        walk_.object_bytes += count / 2 * kItemBytes;
        return to_mark(1) && count % 2 == 0 ? PickleFault::kNone : PickleFault::kNothingThere;
    }

    // Python allocates the memo up to this number, so it may not exceed what the bytes so far can have put there.
    PickleFault put(std::uint64_t place) {
        if (above_mark() == 0) {
            return PickleFault::kNothingThere;
        }
        if (place > walk_.place) {
            return PickleFault::kMemoNumber;
        }
        if (place >= memo_.size()) {
            walk_.object_bytes += (place + 1 - memo_.size()) * kMemoBytes;
            memo_.resize(place + 1, Kind::kAbsent);
        }
        remembered_ += memo_[place] == Kind::kAbsent ? 1 : 0;
        memo_[place] = kinds_.back();
        return PickleFault::kNone;
    }

    PickleFault get(std::uint64_t place) {
        if (place >= memo_.size() || memo_[place] == Kind::kAbsent) {
            return PickleFault::kMemoNumber;
        }
        return push(memo_[place], 0);
    }

    PickleFault counted_number(PickleFault fault) {
        return fault == PickleFault::kNone ? push(Kind::kNumber, kNumberBytes) : fault;
    }

    // Two's complement: a number of 64 bits without a sign has a ninth byte, which is zero.
    PickleFault long_number(std::uint64_t size) {
        if (size > left()) {
            return PickleFault::kTooLong;
        }
        if (size > kNumberLength && !(size == kNumberLength + 1 && content_[at_ + kNumberLength] == 0)) {
            return PickleFault::kLargeNumber;
        }
        return counted_number(skip(size));
    }

    PickleFault text(std::uint64_t size) {
        if (size > left()) {
            return PickleFault::kTooLong;
        }
        bool is_ascii = true;
        for (std::uint64_t byte = 0; byte < size; ++byte) {
            is_ascii = is_ascii && static_cast<signed char>(content_[at_ + byte]) >= 0;
        }
        at_ += size;
        return push(Kind::kText, kTextBytes + size * (is_ascii ? 1 : kBytesPerLetter));
    }

    PickleFault bytes(std::uint64_t size) {
        return skip(size) == PickleFault::kNone ? push(Kind::kOther, kTextBytes + size) : PickleFault::kTooLong;
    }

    std::string_view content_;
    std::size_t at_ = 0;
    PickleWalk walk_;
    std::vector<Kind> kinds_;         // of the objects on the stack
    std::vector<std::size_t> marks_;  // how many objects were on the stack at each mark
    std::vector<Kind> memo_;
    std::uint64_t remembered_ = 0;  // places of the memo that hold something
};

}  // namespace

PickleWalk walk_pickle(std::string_view content) { return Walker(content).walk(); }

}  // namespace msmemscope
