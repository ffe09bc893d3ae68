#include "sources/ascend/mstx/sanitizer_marks.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sources/ascend/mstx/mstx.h"

namespace msmemscope::mstx {
namespace {

std::atomic<bool> wanted{false};

// A record with more is damaged.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50U;

struct Text {
    const char* begin;
    const char* end;
};

// The text behind `key=`, up to the next semicolon; false if there is no such field.
bool find_field(const char* text, const char* key, Text& value) noexcept {
    const std::size_t length = std::strlen(key);
    for (const char* field = text; field != nullptr; field = std::strchr(field, ';')) {
        field += std::strspn(field, "; \t");
        if (std::strncmp(field, key, length) == 0 && field[length] == '=') {
            value.begin = field + length + 1;
            value.end = value.begin + std::strcspn(value.begin, ";");
            return true;
        }
        if (*field == '\0') {
            break;
        }
    }
    return false;
}

// A number, decimal or hexadecimal, that ends before `end`; moves begin behind it and the colon that may follow.
bool read_number(const char*& begin, const char* end, std::uint64_t& number) noexcept {
    char* behind = nullptr;
    if (begin >= end || *begin < '0' || *begin > '9') {
        return false;
    }
    errno = 0;  // the caller keeps the program's
    number = std::strtoull(begin, &behind, 0);
    if (errno != 0 || behind == begin || behind > end) {
        return false;
    }
    begin = behind + (behind < end && *behind == ':' ? 1 : 0);
    return true;
}

void record_accesses(const RecordingScope& scope, format::EventKind kind, const Text& list, std::uint32_t name,
                     format::Device device) noexcept {
    for (const char* entry = list.begin; entry < list.end;) {
        const auto* const comma =
            static_cast<const char*>(std::memchr(entry, ',', static_cast<std::size_t>(list.end - entry)));
        const char* const end = comma != nullptr ? comma : list.end;
        const auto* cursor =
            static_cast<const char*>(std::memchr(entry, ':', static_cast<std::size_t>(end - entry)));  // of the alias
        std::uint64_t address = 0;
        std::uint64_t bytes = 0;
        if (cursor != nullptr && read_number(++cursor, end, address) && read_number(cursor, end, bytes)) {
            Event event{kind};
            event.device = device;
            event.name_id = name;
            event.address = address;
            event.size = static_cast<std::int64_t>(bytes < kMostBytes ? bytes : kMostBytes);
            event.pool = format::Pool::kPta;
            LiveBlock block{};
            if (recorder::find_block_around(address, block)) {
                event.pool = block.pool;
                event.device = block.device;
                event.extra = block.sequence;
            }
            recorder::append(scope, event);
        }
        entry = end + 1;
    }
}

}  // namespace

void take_sanitizer_marks() noexcept { wanted.store(true, std::memory_order_relaxed); }

bool takes_sanitizer_marks() noexcept { return wanted.load(std::memory_order_relaxed); }

void record_sanitizer_mark(const RecordingScope& scope, const char* text, format::Device device) noexcept {
    Text name{};
    if (!find_field(text, "name", name) || name.begin == name.end) {
        return;
    }
    Event event{format::EventKind::kAtenStart};
    event.device = device;
    event.name_id = recorder::intern_string(scope, name.begin, static_cast<std::size_t>(name.end - name.begin));
    const bool with_operator = recorder::is_selected(kSelectLaunch);
    if (with_operator) {
        recorder::append(scope, event);
    }
    if (recorder::is_selected(kSelectAccess)) {
        Text list{};
        if (find_field(text, "read", list)) {
            record_accesses(scope, format::EventKind::kAccessRead, list, event.name_id, device);
        }
        if (find_field(text, "write", list)) {
            record_accesses(scope, format::EventKind::kAccessWrite, list, event.name_id, device);
        }
    }
    if (with_operator) {
        event.kind = format::EventKind::kAtenEnd;
        recorder::append(scope, event);
    }
}

}  // namespace msmemscope::mstx
