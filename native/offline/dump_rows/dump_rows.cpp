#include "offline/dump_rows/dump_rows.h"

#include <cstring>
#include <string>

#include "offline/dump_rows/place.h"

namespace msmemscope {
namespace {

// Fewer bytes than the shortest row has, so that columns rarely grow.
constexpr std::size_t kBytesPerRow = 96;

// An unquoted field up to its comma or line feed.
bool plain_field(Place& place, std::string_view& text, char behind) {
    const char* const begin = place.at;
    for (; place.at != place.end; ++place.at) {
        const char letter = *place.at;
        if (letter == ',' || letter == '\n') {
            text = {begin, static_cast<std::size_t>(place.at - begin)};
            return place.skip(behind);
        }
        if (letter == '"' || letter == '\r') {
            return false;
        }
    }
    return false;
}

// A field with or without quotes. Texts with quotes inside are copied.
struct Field {
    std::string_view text;
    bool is_copy = false;
    std::string copy;
};

// Whether a row seems to begin here, behind a line feed inside quotes: one quote too many somewhere hides whole rows.
bool may_begin_row(const char* at, const char* end) {
    Place place{at, end};
    std::uint64_t number = 0;
    if (!place.number(number) || !place.skip(',')) {
        return false;
    }
    const char* const event = place.at;
    while (place.at != end && ((*place.at >= 'A' && *place.at <= 'Z') || *place.at == '_')) {
        ++place.at;
    }
    return place.at != event && place.skip(',');
}

bool quoted_field(Place& place, Field& field, char behind) {
    const char* begin = place.at;
    field.is_copy = false;
    for (;;) {
        const auto* const quote =
            static_cast<const char*>(std::memchr(place.at, '"', static_cast<std::size_t>(place.end - place.at)));
        if (quote == nullptr) {
            return false;
        }
        for (const char* line = begin;;) {
            line = static_cast<const char*>(std::memchr(line, '\n', static_cast<std::size_t>(quote - line)));
            if (line == nullptr) {
                break;
            }
            if (may_begin_row(++line, place.end)) {
                return false;
            }
        }
        place.at = quote + 1;
        if (place.at != place.end && *place.at == '"') {
            if (!field.is_copy) {
                field.is_copy = true;
                field.copy.clear();
            }
            field.copy.append(begin, static_cast<std::size_t>(place.at - begin));
            begin = ++place.at;
            continue;
        }
        if (field.is_copy) {
            field.copy.append(begin, static_cast<std::size_t>(quote - begin));
            field.text = field.copy;
        } else {
            field.text = {begin, static_cast<std::size_t>(quote - begin)};
        }
        return place.skip(behind);
    }
}

bool any_field(Place& place, Field& field, char behind) {
    if (place.skip('"')) {
        return quoted_field(place, field, behind);
    }
    field.is_copy = false;
    return plain_field(place, field.text, behind);
}

std::uint32_t number_of(TextTable& texts, const Field& field, std::string_view part) {
    return field.is_copy ? texts.number_of_copy(part) : texts.number_of(part);
}

// Running totals stand before the other attributes: they have columns of their own.
bool read_totals(Place& place, RowAttributes& found) {
    static constexpr std::string_view kKeys[] = {"total:", "used:", "process_used:", "device_used:"};
    while (place.at != place.end) {
        int key = -1;
        if (*place.at == 't' || *place.at == 'u' || *place.at == 'p' || *place.at == 'd') {
            for (int candidate = 0; candidate < 4 && key < 0; ++candidate) {
                key = place.skip(kKeys[candidate]) ? candidate : -1;
            }
        } else if (*place.at == '"' || *place.at == ' ' || (*place.at >= '\t' && *place.at <= '\r')) {
            return false;
        }
        if (key >= 0) {
            std::uint64_t value = 0;
            if (!place.number(value)) {
                return false;
            }
            found.totals[static_cast<std::size_t>(key)] = static_cast<std::int64_t>(value);
        } else if (place.skip("pinned:")) {
            if (place.skip("true")) {
                found.is_pinned = true;
            } else if (!place.skip("false")) {
                return false;
            }
        } else {
            return true;
        }
        if (place.skip('}')) {
            return place.at == place.end;
        }
        if (place.at != place.end && !place.skip(',')) {
            return false;
        }
    }
    return true;
}

class Reader {
public:
    explicit Reader(DumpRows& rows) : rows_(rows) {}

    bool read_row(Place& place) {
        std::uint64_t sequence = 0;
        std::uint64_t timestamp = 0;
        if (!place.number(sequence) || !place.skip(',') || !read_words(place) || !any_field(place, field_, ',')) {
            return false;
        }
        rows_.sequence.push_back(sequence);
        rows_.name.push_back(number_of(rows_.name_texts, field_, field_.text));
        if (!place.number(timestamp) || !place.skip(',')) {
            return false;
        }
        rows_.timestamp_ns.push_back(timestamp);
        std::string_view device;
        if (!read_numbers_of_program(place) || !plain_field(place, device, ',') || !read_address(place)) {
            return false;
        }
        rows_.device.push_back(rows_.device_texts.number_of(device));
        if (!any_field(place, field_, ',') || !read_attributes()) {
            return false;
        }
        if (!any_field(place, field_, ',')) {
            return false;
        }
        rows_.python_stack.push_back(number_of(rows_.python_stack_texts, field_, field_.text));
        if (!any_field(place, field_, '\n')) {
            return false;
        }
        rows_.native_stack.push_back(number_of(rows_.native_stack_texts, field_, field_.text));
        return true;
    }

private:
    bool read_words(Place& place) {
        const char* const begin = place.at;
        std::string_view event;
        std::string_view event_type;
        if (!plain_field(place, event, ',') || !plain_field(place, event_type, ',') || event.empty() ||
            event_type.empty()) {
            return false;
        }
        const std::string_view both{begin, event.size() + 1 + event_type.size()};
        rows_.words.push_back(rows_.words_texts.number_of(both));
        return true;
    }

    bool read_numbers_of_program(Place& place) {
        std::uint64_t process = 0;
        std::uint64_t thread = 0;
        if (place.skip("N/A,")) {
            rows_.process_id.push_back(kNoNumber);
        } else if (place.number(process) && place.skip(',')) {
            const bool fits = process <= std::numeric_limits<std::uint32_t>::max();
            rows_.process_id.push_back(fits ? static_cast<std::int64_t>(process) : kNoNumber);
        } else {
            return false;
        }
        if (!place.skip("N/A,") && !(place.number(thread) && place.skip(','))) {
            return false;
        }
        const bool fits = thread <= std::numeric_limits<std::uint32_t>::max();
        rows_.thread_id.push_back(fits ? static_cast<std::uint32_t>(thread) : 0);
        return true;
    }

    bool read_address(Place& place) {
        std::uint64_t address = 0;
        const bool is_known = place.skip("0x");
        if (is_known ? !place.hexadecimal(address)
                     : !(place.skip("N/A") || (place.at != place.end && *place.at == ','))) {
            return false;
        }
        rows_.address.push_back(address);
        rows_.has_address.push_back(is_known ? 1 : 0);
        return place.skip(',');
    }

    bool read_attributes() {
        const std::string_view text = field_.text;
        Place place{text.data(), text.data() + text.size()};
        RowAttributes found;
        if (place.skip("{allocation_id:")) {
            if (!place.number(found.block) || !place.skip(",addr:0x")) {
                return false;
            }
            const void* const comma = std::memchr(place.at, ',', static_cast<std::size_t>(place.end - place.at));
            if (comma == nullptr) {
                return false;
            }
            place.at = static_cast<const char*>(comma);
            if (!place.skip(",size:") || !place.signed_number(found.size)) {
                return false;
            }
            if (place.skip('}')) {
                if (place.at != place.end) {
                    return false;
                }
            } else if (place.skip(',')) {
                if (!read_totals(place, found)) {
                    return false;
                }
                found.rest = {place.at, static_cast<std::size_t>(place.end - place.at)};
                if (!found.rest.empty() && found.rest.back() == '}') {
                    found.rest.remove_suffix(1);
                }
            } else if (place.at != place.end) {
                return false;
            }
        } else if (place.skip("{streamId:")) {
            if (!place.number(found.stream) || !place.skip(",taskId:") || !place.number(found.task)) {
                return false;
            }
            if (!place.skip('}') || place.at != place.end) {
                found.others = text;
                found.stream = found.task = 0;
            }
        } else if (place.skip("{\"")) {
            return false;  // the form of databases: every row is of it, so this is not the reader for it
        } else if (text.size() > 2) {
            found.others = text;
        }
        add_attributes(rows_, found, number_of(rows_.rest_texts, field_, found.rest),
                       number_of(rows_.attributes_texts, field_, found.others));
        return true;
    }

    DumpRows& rows_;
    Field field_;
};

template <typename... Columns>
void reserve(std::size_t count, Columns&... columns) {
    (columns.reserve(count), ...);
}

}  // namespace

void reserve_rows(DumpRows& rows, std::size_t count) {
    reserve(count, rows.sequence, rows.timestamp_ns, rows.process_id, rows.thread_id, rows.address, rows.has_address,
            rows.allocation_id, rows.size, rows.extra, rows.total, rows.used, rows.process_used, rows.device_used,
            rows.pinned, rows.words, rows.device, rows.name, rows.rest, rows.attributes, rows.python_stack,
            rows.native_stack);
}

void add_attributes(DumpRows& rows, const RowAttributes& attributes, std::uint32_t rest, std::uint32_t others) {
    rows.allocation_id.push_back(attributes.block);
    rows.size.push_back(attributes.size);
    rows.extra.push_back(attributes.stream << 32 | (attributes.task & 0xffffffff));
    rows.total.push_back(attributes.totals[0]);
    rows.used.push_back(attributes.totals[1]);
    rows.process_used.push_back(attributes.totals[2]);
    rows.device_used.push_back(attributes.totals[3]);
    rows.pinned.push_back(attributes.is_pinned ? 1 : 0);
    rows.rest.push_back(rest);
    rows.attributes.push_back(others);
}

bool read_dump_rows(std::string_view content, DumpRows& rows) {
    reserve_rows(rows, content.size() / kBytesPerRow);
    Place place{content.data(), content.data() + content.size()};
    Reader reader(rows);
    while (place.at != place.end) {
        if (!reader.read_row(place)) {
            return false;
        }
    }
    return true;
}

}  // namespace msmemscope
