#include "offline/dump_writing/cells.h"

#include <charconv>
#include <cstring>

namespace msmemscope {
namespace {

void put_hexadecimal(ByteBuffer& target, std::uint64_t number) {
    static constexpr char kDigits[] = "0123456789abcdef";
    constexpr int kCount = 16;
    char* const text = target.room(kCount);
    for (int place = kCount - 1; place >= 0; --place, number >>= 4) {
        text[place] = kDigits[number & 0xf];
    }
    target.advance(kCount);
}

PutText put_parts(ByteBuffer& target, const std::vector<TextPart>& parts, std::size_t row) {
    PutText put;
    for (const TextPart& part : parts) {
        if (part.where != nullptr && part.where[row] == 0) {
            continue;
        }
        KeyedText text{};
        if (part.form == ValueForm::kKey && !part.texts->find(part.values.at(row), text)) {
            continue;
        }
        put.is_null = false;
        put.is_quoted |= part.is_quoted || text.is_quoted;
        target.put(part.before);
        switch (part.form) {
            case ValueForm::kNone:
                break;
            case ValueForm::kDecimal:
                put_decimal(target, part.values.at(row), part.values.is_signed);
                break;
            case ValueForm::kHexadecimal:
                put_hexadecimal(target, part.values.at(row));
                break;
            case ValueForm::kKey:
                target.put(text.text);
                break;
        }
        target.put(part.behind);
    }
    return put;
}

// A cell whose quotes are put around it once they turn out to be needed.
void put_csv_text(ByteBuffer& target, const CellColumn& column, std::size_t row) {
    const std::size_t begin = target.size();
    target.put('"');
    const PutText put = put_cell_text(target, column, row);
    if (put.is_null) {
        target.shrink(begin);
    } else if (put.is_quoted || target.size() == begin + 1) {  // an empty text, unlike none, has quotes
        target.put('"');
    } else {
        std::memmove(target.data() + begin, target.data() + begin + 1, target.size() - begin - 1);
        target.shrink(target.size() - 1);
    }
}

}  // namespace

void put_decimal(ByteBuffer& target, std::uint64_t number, bool is_signed) {
    constexpr std::size_t kMostDigits = 20;
    char* const text = target.room(kMostDigits);
    const auto end = is_signed ? std::to_chars(text, text + kMostDigits, static_cast<std::int64_t>(number)).ptr
                               : std::to_chars(text, text + kMostDigits, number).ptr;
    target.advance(static_cast<std::size_t>(end - text));
}

PutText put_cell_text(ByteBuffer& target, const CellColumn& column, std::size_t row) {
    const std::size_t shape = column.shape_of_row == nullptr ? 0 : column.shape_of_row[row];
    const PutText put = put_parts(target, column.shapes[shape], row);
    return put.is_null && !column.otherwise.empty() ? put_parts(target, column.otherwise, row) : put;
}

std::size_t put_csv_rows(ByteBuffer& target, const std::vector<CellColumn>& columns, const RowChoice& rows,
                         std::size_t begin, std::size_t most_bytes) {
    std::size_t place = begin;
    for (; place < rows.count && target.size() < most_bytes; ++place) {
        const std::size_t row = rows.at(place);
        for (const CellColumn& column : columns) {
            if (column.is_text) {
                put_csv_text(target, column, row);
            } else {
                put_decimal(target, column.numbers.at(row), column.numbers.is_signed);
            }
            target.put(',');
        }
        target.data()[target.size() - 1] = '\n';
    }
    return place;
}

}  // namespace msmemscope
