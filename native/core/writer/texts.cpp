#include "core/writer/texts.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "core/writer/bounded_lock.h"
#include "core/writer/hash.h"
#include "core/writer/recorder.h"

namespace msmemscope::texts {
namespace {

constexpr std::size_t kMostTexts = 1UL << 14U;
constexpr std::size_t kSlots = 2 * kMostTexts;
constexpr std::size_t kMostBytes = 1UL << 20U;

struct Text {
    const char* bytes;
    std::size_t length;
    bool is_attributes;
    // The lower half of the epoch above the id in its log.
    std::atomic<std::uint64_t> id;
};

// Untouched pages of all this take no memory.
Text table[kMostTexts + 1];  // by number; 0 is not used
std::uint32_t slots[kSlots];
char storage[kMostBytes];
std::size_t used_bytes = 0;
std::uint32_t count = 0;
BoundedLock lock;

// The most attributes that are kept without a log: what allocators say of a block.
constexpr std::size_t kMostAttributes = 16;

std::uint32_t number_of_content(const char* text, std::size_t bytes, bool is_attributes) noexcept {
    if (bytes == 0) {
        return 0;
    }
    const BoundedLockGuard guard(lock);
    if (!guard) {
        return 0;
    }
    std::size_t slot = hash_bytes(text, bytes, 5) % kSlots;
    for (; slots[slot] != 0; slot = (slot + 1) % kSlots) {
        const Text& known = table[slots[slot]];
        if (known.is_attributes == is_attributes && known.length == bytes &&
            std::memcmp(known.bytes, text, bytes) == 0) {
            return slots[slot];
        }
    }
    if (count == kMostTexts || bytes > kMostBytes - used_bytes) {
        return 0;
    }
    char* const place = storage + used_bytes;
    std::memcpy(place, text, bytes);
    used_bytes += bytes;
    Text& fresh = table[++count];
    fresh.bytes = place;
    fresh.length = bytes;
    fresh.is_attributes = is_attributes;
    slots[slot] = count;
    return count;
}

std::uint32_t attribute_id(const RecordingScope& scope, const Text& set) noexcept {
    format::Attribute pairs[kMostAttributes];
    std::memcpy(pairs, set.bytes, set.length);
    const std::size_t pair_count = set.length / sizeof(format::Attribute);
    for (std::size_t index = 0; index < pair_count; ++index) {
        if (pairs[index].kind == format::ValueKind::kString) {
            pairs[index].value = id_in_log(scope, static_cast<std::uint32_t>(pairs[index].value));
        }
    }
    return recorder::intern_attributes(scope, pairs, pair_count);
}

// Whether a text has a line that begins with this digit.
bool has_level(const Text& text, char digit) noexcept {
    for (std::size_t place = 0; place < text.length; ++place) {
        if ((place == 0 || text.bytes[place - 1] == '\n') && text.bytes[place] == digit) {
            return true;
        }
    }
    return false;
}

// The levels of the user's labels, see model/labels.py.
constexpr char kFirstOfUser = '5';
constexpr char kLastOfUser = '7';
constexpr bool is_of_user(char level) noexcept { return level >= kFirstOfUser && level <= kLastOfUser; }

// One line of a text after the other: the digit of a level, and a label.
class Line {
public:
    explicit Line(std::string_view text) noexcept : rest_(text) { find_end(); }
    bool is_there() const noexcept { return !rest_.empty(); }
    void next() noexcept {
        rest_.remove_prefix(std::min(end_ + 1, rest_.size()));
        find_end();
    }
    char level() const noexcept { return rest_.front(); }
    // substr() would bring the standard library's exceptions along, see preload/without_exceptions.cpp.
    std::string_view label() const noexcept {
        return end_ == 0 ? std::string_view{} : std::string_view{rest_.data() + 1, end_ - 1};
    }

private:
    void find_end() noexcept { end_ = std::min(rest_.find('\n'), rest_.size()); }
    std::string_view rest_;
    std::size_t end_ = 0;
};

// Lines that are put together; those that find no room are left out.
class Joined {
public:
    void append(char level, std::string_view label) noexcept {
        const bool is_first = length_ == 0;
        if (length_ + label.size() + (is_first ? 1 : 2) > sizeof(bytes_)) {
            return;
        }
        if (!is_first) {
            bytes_[length_++] = '\n';
        }
        bytes_[length_++] = level;
        std::memcpy(bytes_ + length_, label.data(), label.size());
        length_ += label.size();
        if (is_of_user(level) && level >= free_of_user_) {
            free_of_user_ = static_cast<char>(level + 1);
        }
    }
    // Behind those of the user that are there; left out if there are three.
    void append_of_user(std::string_view label) noexcept {
        if (free_of_user_ <= kLastOfUser) {
            append(free_of_user_, label);
        }
    }
    bool has_label_of_user(std::string_view label) const noexcept {
        for (Line line{std::string_view(bytes_, length_)}; line.is_there(); line.next()) {
            if (is_of_user(line.level()) && line.label() == label) {
                return true;
            }
        }
        return false;
    }
    const char* bytes() const noexcept { return bytes_; }
    std::size_t length() const noexcept { return length_; }

private:
    char bytes_[4096];  // eight levels, and labels of 128 bytes
    std::size_t length_ = 0;
    char free_of_user_ = kFirstOfUser;
};

}  // namespace

std::uint32_t number_of(const char* text, std::size_t bytes) noexcept { return number_of_content(text, bytes, false); }

std::uint32_t number_of_attributes(const format::Attribute* pairs, std::size_t pair_count) noexcept {
    const std::size_t kept = pair_count < kMostAttributes ? pair_count : kMostAttributes;
    return number_of_content(reinterpret_cast<const char*>(pairs), kept * sizeof(*pairs), true);
}

std::uint32_t joined(std::uint32_t first, std::uint32_t second) noexcept {
    if (first == 0 || second == 0) {
        return first + second;
    }
    Joined both;
    const Text& before = table[first];
    const Text& after = table[second];
    for (Line line{{before.bytes, before.length}}; line.is_there(); line.next()) {
        if (is_of_user(line.level()) || !has_level(after, line.level())) {
            both.append(line.level(), line.label());
        }
    }
    for (Line line{{after.bytes, after.length}}; line.is_there(); line.next()) {
        if (!is_of_user(line.level())) {
            both.append(line.level(), line.label());
        } else if (!both.has_label_of_user(line.label())) {
            both.append_of_user(line.label());
        }
    }
    return number_of(both.bytes(), both.length());
}

std::uint32_t id_in_log(const RecordingScope& scope, std::uint32_t number) noexcept {
    if (number == 0) {
        return 0;
    }
    Text& text = table[number];
    const std::uint64_t epoch = recorder::epoch() << 32U;
    const std::uint64_t known = text.id.load(std::memory_order_relaxed);
    if ((known & ~std::uint64_t{0xFFFFFFFF}) == epoch && static_cast<std::uint32_t>(known) != 0) {
        return static_cast<std::uint32_t>(known);
    }
    const std::uint32_t id =
        text.is_attributes ? attribute_id(scope, text) : recorder::intern_string(scope, text.bytes, text.length);
    text.id.store(epoch | id, std::memory_order_relaxed);
    return id;
}

}  // namespace msmemscope::texts
