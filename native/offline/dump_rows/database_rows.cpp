#include "offline/dump_rows/database_rows.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "offline/dump_rows/database_pages.h"
#include "offline/dump_rows/place.h"

namespace msmemscope {
namespace {

constexpr std::uint64_t kLongestRow = 64 << 20;
constexpr std::size_t kColumns = 12;
constexpr std::size_t kLeastBytesPerRow = 96;

// One field of a row.
struct Value {
    enum class Type { kNull, kInteger, kText } type = Type::kNull;
    std::int64_t integer = 0;
    std::string_view text;

    bool is_text() const { return type == Type::kText; }
};

bool read_value(std::uint64_t serial_type, Bytes& body, Value& value) {
    static constexpr int kIntegerBytes[] = {0, 1, 2, 3, 4, 6, 8};
    if (serial_type == 0) {
        value = {};
        return true;
    }
    if (serial_type <= 6) {
        const int bytes = kIntegerBytes[serial_type];
        if (body.left() < static_cast<std::size_t>(bytes)) {
            return false;
        }
        // The first byte has the sign.
        std::uint64_t number = (*body.at & 0x80) != 0 ? ~std::uint64_t{0} : 0;
        for (int place = 0; place < bytes; ++place) {
            number = number << 8 | body.at[place];
        }
        value = {Value::Type::kInteger, static_cast<std::int64_t>(number), {}};
        return body.skip(static_cast<std::size_t>(bytes));
    }
    if (serial_type == 8 || serial_type == 9) {
        value = {Value::Type::kInteger, static_cast<std::int64_t>(serial_type - 8), {}};
        return true;
    }
    if (serial_type < 13 || serial_type % 2 == 0) {
        return false;
    }
    const std::uint64_t bytes = (serial_type - 13) / 2;
    if (bytes > body.left()) {
        return false;
    }
    value = {Value::Type::kText, 0, {reinterpret_cast<const char*>(body.at), static_cast<std::size_t>(bytes)}};
    return body.skip(static_cast<std::size_t>(bytes));
}

enum class Key { kOther, kUsual, kOdd };

// Goes past `"key":"`, if it is that; odd is a key without its quotes, or with a value without.
Key skip_key(Place& place, std::string_view key) {
    Place ahead = place;
    if (!ahead.skip('"') || !ahead.skip(key) || ahead.at == ahead.end || (*ahead.at != '"' && *ahead.at != ':')) {
        return Key::kOther;
    }
    if (!ahead.skip("\":\"")) {
        return Key::kOdd;
    }
    place = ahead;
    return Key::kUsual;
}

class RowReader {
public:
    RowReader(const DatabasePart& part, DumpRows& rows) : part_(part), rows_(rows) {
        struct stat status = {};
        file_bytes_ = fstat(part.descriptor, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
    }

    bool read_leaf(const Byte* content, std::uint32_t number) {
        const Page page = page_at(content, number, part_.usable_bytes);
        if (page.type() != kTableLeaf || !page.cells_fit()) {
            return false;
        }
        for (std::uint32_t place = 0; place < page.cell_count(); ++place) {
            Bytes cell{};
            Bytes payload{};
            if (!page.cell(place, cell) || !find_payload(cell, payload) || !read_row(payload)) {
                return false;
            }
        }
        return true;
    }

private:
    // The bytes of a row: in the leaf, or gathered from it and the pages that it goes on in.
    bool find_payload(Bytes cell, Bytes& payload) {
        std::uint64_t bytes = 0;
        std::uint64_t row = 0;
        if (!cell.varint(bytes) || !cell.varint(row) || bytes > kLongestRow) {
            return false;
        }
        const std::uint64_t usable = part_.usable_bytes;
        if (bytes <= usable - 35) {
            payload = {cell.at, cell.at + bytes};
            return bytes <= cell.left();
        }
        const std::uint64_t least = (usable - 12) * 32 / 255 - 23;
        const std::uint64_t fitting = least + (bytes - least) % (usable - 4);
        const auto local = static_cast<std::size_t>(fitting <= usable - 35 ? fitting : least);
        if (cell.left() < local + 4) {
            return false;
        }
        // Pages of a damaged file can lead to each other: rows never go on in more bytes than there are.
        gathered_bytes_ += bytes;
        if (gathered_bytes_ > file_bytes_) {
            return false;
        }
        gathered_.assign(cell.at, cell.at + local);
        std::uint32_t next = big_endian(cell.at + local, 4);
        while (gathered_.size() < bytes) {
            const std::size_t wanted = std::min<std::size_t>(static_cast<std::size_t>(bytes) - gathered_.size(),
                                                             static_cast<std::size_t>(usable) - 4);
            const std::uint64_t offset = (std::uint64_t{next} - 1) * part_.page_bytes;
            Byte following[4];
            if (next == 0 || !read_at(part_.descriptor, following, sizeof following, offset)) {
                return false;
            }
            const std::size_t before = gathered_.size();
            gathered_.resize(before + wanted);
            if (!read_at(part_.descriptor, gathered_.data() + before, wanted, offset + 4)) {
                return false;
            }
            next = big_endian(following, 4);
        }
        payload = {gathered_.data(), gathered_.data() + gathered_.size()};
        return true;
    }

    bool read_row(Bytes payload) {
        const Byte* const begin = payload.at;
        std::uint64_t header_bytes = 0;
        if (!payload.varint(header_bytes) || header_bytes > static_cast<std::uint64_t>(payload.end - begin)) {
            return false;
        }
        Bytes header{payload.at, begin + header_bytes};
        Bytes body{begin + header_bytes, payload.end};
        for (Value& value : values_) {
            std::uint64_t serial_type = 0;
            if (header.at >= header.end || !header.varint(serial_type) || !read_value(serial_type, body, value)) {
                return false;
            }
        }
        return header.at == header.end && add_row();
    }

    bool add_row() {
        const auto& [id, event, event_type, name, time, process, thread, device, pointer, attributes, python_stack,
                     native_stack] = values_;
        if (id.type != Value::Type::kInteger || id.integer < 0 || time.type != Value::Type::kInteger ||
            time.integer < 0 || !event.is_text() || event.text.empty() || !event_type.is_text() ||
            event_type.text.empty() || !name.is_text() || !device.is_text() || !pointer.is_text() ||
            !attributes.is_text() || !python_stack.is_text() || !native_stack.is_text()) {
            return false;
        }
        rows_.sequence.push_back(static_cast<std::uint64_t>(id.integer));
        rows_.timestamp_ns.push_back(static_cast<std::uint64_t>(time.integer));
        words_.assign(event.text);
        words_ += ',';
        words_ += event_type.text;
        rows_.words.push_back(rows_.words_texts.number_of_copy(words_));
        rows_.name.push_back(rows_.name_texts.number_of_copy(name.text));
        rows_.device.push_back(rows_.device_texts.number_of_copy(device.text));
        rows_.python_stack.push_back(rows_.python_stack_texts.number_of_copy(python_stack.text));
        rows_.native_stack.push_back(rows_.native_stack_texts.number_of_copy(native_stack.text));
        return add_numbers_of_program(process, thread) && add_address(pointer.text) && read_attributes(attributes.text);
    }

    bool add_numbers_of_program(const Value& process, const Value& thread) {
        constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
        if (process.type != Value::Type::kInteger || process.integer < 0 || process.integer > kMost ||
            thread.type != Value::Type::kInteger || thread.integer < 0 || thread.integer > kMost) {
            return false;
        }
        rows_.process_id.push_back(process.integer);
        rows_.thread_id.push_back(static_cast<std::uint32_t>(thread.integer));
        return true;
    }

    bool add_address(std::string_view text) {
        Place place = place_in(text);
        std::uint64_t address = 0;
        const bool is_known = place.skip("0x");
        if (is_known ? !place.hexadecimal(address) : !(text.empty() || place.skip("N/A"))) {
            return false;
        }
        rows_.address.push_back(address);
        rows_.has_address.push_back(is_known ? 1 : 0);
        return place.at == place.end;
    }

    bool read_attributes(std::string_view text) {
        Place place = place_in(text);
        RowAttributes found;
        if (place.skip("{\"allocation_id\":\"")) {
            std::uint64_t address = 0;
            if (!place.number(found.block) || !place.skip("\",\"addr\":\"0x") || !place.hexadecimal(address) ||
                !place.skip("\",\"size\":\"") || !place.signed_number(found.size) || !place.skip('"') ||
                !read_totals(place, found)) {
                return false;
            }
            found.rest = place.rest();
        } else if (place.skip("{\"streamId\":\"")) {
            if (!place.number(found.stream) || !place.skip("\",\"taskId\":\"") || !place.number(found.task)) {
                return false;
            }
            if (!place.skip("\"}") || place.at != place.end) {
                found.others = text;
                found.stream = found.task = 0;
            }
        } else if (text.size() > 2) {
            found.others = text;
        }
        add_attributes(rows_, found, rows_.rest_texts.number_of_copy(found.rest),
                       rows_.attributes_texts.number_of_copy(found.others));
        return true;
    }

    // Running totals stand before the other attributes. Goes to the first of those, or to the end.
    static bool read_totals(Place& place, RowAttributes& found) {
        static constexpr std::array<std::string_view, 5> kTotals = {"total", "used", "process_used", "device_used",
                                                                    "pinned"};
        while (!place.skip('}')) {
            if (!place.skip(',') || place.at == place.end || *place.at != '"') {
                return false;
            }
            std::size_t number = 0;
            Key key = Key::kOther;
            while (number < kTotals.size() && key == Key::kOther) {
                key = skip_key(place, kTotals[number++]);
            }
            if (key == Key::kOther) {
                return true;
            }
            if (key == Key::kOdd) {
                return false;
            }
            if (number <= found.totals.size()) {
                std::uint64_t value = 0;
                if (!place.number(value)) {
                    return false;
                }
                found.totals[number - 1] = static_cast<std::int64_t>(value);
            } else if (place.skip("true")) {
                found.is_pinned = true;
            } else {
                return false;
            }
            if (!place.skip('"')) {
                return false;
            }
        }
        return place.at == place.end;
    }

    const DatabasePart& part_;
    DumpRows& rows_;
    std::array<Value, kColumns> values_;
    std::uint64_t file_bytes_ = 0;
    std::uint64_t gathered_bytes_ = 0;
    std::vector<Byte> gathered_;
    std::string words_;
};

// SQLite's own texts end at a zero, and two letters separate fields and rows where the other reader asks for them.
bool has_odd_letter(const TextTable& table) {
    for (const std::string_view text : table.texts()) {
        if (std::any_of(text.begin(), text.end(),
                        [](char letter) { return letter == 0 || letter == 30 || letter == 31; })) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool read_database_rows(const DatabasePart& part, DumpRows& rows) {
    reserve_rows(rows, part.page_count * part.usable_bytes / kLeastBytesPerRow);
    RowReader reader(part, rows);
    std::vector<Byte> content;
    for (std::size_t begin = 0; begin < part.page_count;) {
        // Leaves that lie behind each other are read together.
        constexpr std::size_t kMostPages = 64;
        std::size_t end = begin + 1;
        while (end < part.page_count && end - begin < kMostPages && part.pages[end] == part.pages[end - 1] + 1) {
            ++end;
        }
        content.resize((end - begin) * part.page_bytes);
        if (part.pages[begin] == 0 || !read_at(part.descriptor, content.data(), content.size(),
                                               (std::uint64_t{part.pages[begin]} - 1) * part.page_bytes)) {
            return false;
        }
        for (std::size_t place = begin; place < end; ++place) {
            if (!reader.read_leaf(content.data() + (place - begin) * part.page_bytes, part.pages[place])) {
                return false;
            }
        }
        begin = end;
    }
    return !has_odd_letter(rows.words_texts) && !has_odd_letter(rows.device_texts) &&
           !has_odd_letter(rows.name_texts) && !has_odd_letter(rows.rest_texts) &&
           !has_odd_letter(rows.attributes_texts) && !has_odd_letter(rows.python_stack_texts) &&
           !has_odd_letter(rows.native_stack_texts);
}

}  // namespace msmemscope
