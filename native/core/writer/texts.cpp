#include "core/writer/texts.h"

#include <atomic>
#include <cstring>

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

}  // namespace

std::uint32_t number_of(const char* text, std::size_t bytes) noexcept { return number_of_content(text, bytes, false); }

std::uint32_t number_of_attributes(const format::Attribute* pairs, std::size_t count) noexcept {
    const std::size_t kept = count < kMostAttributes ? count : kMostAttributes;
    return number_of_content(reinterpret_cast<const char*>(pairs), kept * sizeof(*pairs), true);
}

std::uint32_t joined(std::uint32_t first, std::uint32_t second) noexcept {
    if (first == 0 || second == 0) {
        return first + second;
    }
    char both[4096];  // eight levels, and labels of 128 bytes
    const Text& before = table[first];
    const Text& after = table[second];
    std::size_t length = 0;
    for (std::size_t begin = 0; begin < before.length;) {
        const void* const feed = std::memchr(before.bytes + begin, '\n', before.length - begin);
        const std::size_t end =
            feed == nullptr ? before.length : static_cast<std::size_t>(static_cast<const char*>(feed) - before.bytes);
        if (!has_level(after, before.bytes[begin]) && length + (end - begin) + 1 <= sizeof(both)) {
            std::memcpy(both + length, before.bytes + begin, end - begin);
            length += end - begin;
            both[length++] = '\n';
        }
        begin = end + 1;
    }
    if (length + after.length > sizeof(both)) {
        return second;
    }
    std::memcpy(both + length, after.bytes, after.length);
    return number_of(both, length + after.length);
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
