#include "offline/dump_rows/chosen_rows.h"

#include <algorithm>
#include <cstring>

namespace msmemscope {
namespace {

constexpr int kMostDigits = 19;
constexpr std::int64_t kNowhere = -1;

const char* find(const char* begin, const char* end, char letter) {
    const void* const found = std::memchr(begin, letter, static_cast<std::size_t>(end - begin));
    return found == nullptr ? end : static_cast<const char*>(found);
}

// The number that a field begins with, quoted or not; false if it begins with none.
bool leading_number(const char* at, const char* end, std::uint64_t& value) {
    at += at != end && *at == '"' ? 1 : 0;
    const char* const begin = at;
    value = 0;
    for (; at != end && *at >= '0' && *at <= '9' && at - begin < kMostDigits; ++at) {
        value = value * 10 + static_cast<std::uint64_t>(*at - '0');
    }
    return at != begin;
}

// The line feed that ends a row, or the end of the content: one within quotes is part of a field.
const char* row_end(const char* at, const char* end) {
    bool is_quoted = false;
    for (;;) {
        const char* const line_feed = find(at, end, '\n');
        for (const char* quote = find(at, line_feed, '"'); quote != line_feed;
             quote = find(quote + 1, line_feed, '"')) {
            is_quoted = !is_quoted;
        }
        if (line_feed == end || !is_quoted) {
            return line_feed;
        }
        at = line_feed + 1;
    }
}

const char* place_in_row(const char* at, const char* end, const RowChoice& choice) {
    const char* const unquoted_end = find(at, end, '"');
    for (int column = 0; column < choice.attributes_column; ++column) {
        const char* const comma = find(at, unquoted_end, ',');
        if (comma == unquoted_end) {
            return nullptr;
        }
        const std::string_view field{at, static_cast<std::size_t>(comma - at)};
        if (column == choice.event_column && field != "MALLOC") {
            return nullptr;
        }
        std::uint64_t process_id = 0;
        if (column == choice.process_column &&
            (!leading_number(at, comma, process_id) || process_id != choice.process_id)) {
            return nullptr;
        }
        at = comma + 1;
    }
    if (at != unquoted_end || unquoted_end == end) {
        return nullptr;
    }
    const char* const opening = unquoted_end;
    const char* const closing = find(opening + 1, end, '"');
    const std::string_view attributes{opening + 1, static_cast<std::size_t>(closing - opening - 1)};
    const bool is_closed = closing != end && (closing + 1 == end || closing[1] == ',' || closing[1] == '\r');
    if (!is_closed || attributes.size() <= 2 || attributes.front() != '{' || attributes.back() != '}' ||
        attributes.find("inefficient") != std::string_view::npos) {
        return nullptr;
    }
    return closing - 1;
}

}  // namespace

ChosenRows choose_rows(std::string_view content, const RowChoice& choice, bool is_last) {
    ChosenRows rows;
    const char* const begin = content.data();
    const char* const end = begin + content.size();
    const std::uint64_t* const ids_end = choice.ids + choice.id_count;
    for (const char* at = begin; at != end;) {
        const char* const line_feed = row_end(at, end);
        if (line_feed == end && !is_last) {
            break;
        }
        std::uint64_t number = 0;
        if (choice.ids == nullptr) {
            rows.begin.push_back(at - begin);
            rows.id.push_back(kNowhere);
            rows.place.push_back(kNowhere);
        } else if (leading_number(at, line_feed, number)) {
            const std::uint64_t* const id = std::lower_bound(choice.ids, ids_end, number);
            if (id != ids_end && *id == number) {
                const char* const place = place_in_row(at, line_feed, choice);
                rows.begin.push_back(at - begin);
                rows.id.push_back(id - choice.ids);
                rows.place.push_back(place == nullptr ? kNowhere : place - begin);
            }
        }
        at = line_feed == end ? end : line_feed + 1;
        rows.end = at - begin;
    }
    return rows;
}

}  // namespace msmemscope
