// The attributes of one event, put together on the stack of whoever records it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/format/attribute.h"
#include "core/writer/recorder.h"

namespace msmemscope {

class Attributes {
public:
    // More than any event has; what is added behind it is left out.
    static constexpr std::size_t kMost = 64;

    explicit Attributes(const RecordingScope& scope) noexcept : scope_(scope), count_(0) {}

    Attributes& number(format::AttributeKey key, std::uint64_t value) noexcept {
        return add(key, format::ValueKind::kNumber, value);
    }
    Attributes& text(format::AttributeKey key, const char* text, std::size_t bytes) noexcept {
        return add(key, format::ValueKind::kString, recorder::intern_string(scope_, text, bytes));
    }
    Attributes& text(format::AttributeKey key, const char* text) noexcept {
        return this->text(key, text, std::strlen(text));
    }

    const format::Attribute* pairs() const noexcept { return pairs_; }
    std::size_t count() const noexcept { return count_; }

    // Of this set in the log, as Record::attribute_id has it; 0 for an empty one.
    std::uint32_t id() const noexcept { return count_ == 0 ? 0 : recorder::intern_attributes(scope_, pairs_, count_); }

private:
    Attributes& add(format::AttributeKey key, format::ValueKind kind, std::uint64_t value) noexcept {
        if (count_ < kMost) {
            pairs_[count_++] = format::Attribute{key, kind, 0, value};
        }
        return *this;
    }

    const RecordingScope& scope_;
    std::size_t count_;
    format::Attribute pairs_[kMost];
};

}  // namespace msmemscope
