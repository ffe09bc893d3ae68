#include "dump_writing.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "offline/dump_writing/cells.h"
#include "offline/dump_writing/database_writer.h"
#include "offline/dump_writing/keyed_texts.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

using AnyNumbers = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
using Flags = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Choice = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Written = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

// Hands bytes to Python without copying them.
Written written(ByteBuffer& buffer) {
    const std::size_t size = buffer.size();
    char* const bytes = buffer.released();
    const nb::capsule owner(bytes == nullptr ? std::malloc(1) : bytes,
                            [](void* memory) noexcept { std::free(memory); });
    return Written(owner.data(), {size}, owner);
}

std::string_view utf8(nb::handle text) {
    Py_ssize_t length = 0;
    const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
    if (bytes == nullptr) {
        throw nb::python_error();
    }
    return {bytes, static_cast<std::size_t>(length)};
}

// A table as Python describes it, see formats/dump/cells.py; the arrays stay alive with it.
struct Rows {
    std::vector<CellColumn> columns;
    std::vector<AnyNumbers> numbers;
    std::vector<Flags> flags;
    std::optional<Choice> chosen;
    std::size_t count = 0;

    RowChoice choice() const { return {chosen ? chosen->data() : nullptr, chosen ? chosen->size() : count}; }
};

Numbers numbers_in(AnyNumbers array, std::size_t count, std::vector<AnyNumbers>& kept) {
    const nb::dlpack::dtype type = array.dtype();
    const bool is_signed = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
    const bool is_number = is_signed || type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
    if (!is_number || type.lanes != 1 || array.shape(0) != count) {
        throw nb::value_error("not a column of whole numbers, or of another length");
    }
    const auto width = static_cast<std::uint8_t>(type.bits / 8);
    kept.push_back(array);
    return {static_cast<const char*>(array.data()), static_cast<std::ptrdiff_t>(array.stride(0)) * width, width,
            is_signed};
}

const std::uint8_t* flags_in(nb::handle object, std::size_t count, std::vector<Flags>& kept) {
    if (object.is_none()) {
        return nullptr;
    }
    auto array = nb::cast<Flags>(object);
    if (array.shape(0) != count) {
        throw nb::value_error("columns of different lengths");
    }
    kept.push_back(array);
    return array.data();
}

TextPart part_of(nb::handle description, TextForm text_form, Rows& rows) {
    const auto fields = nb::cast<nb::tuple>(description);
    TextPart part;
    ByteBuffer buffer;
    const auto formed = [&](nb::handle object) {
        const std::string_view text = utf8(object);
        part.is_quoted |= text_form == TextForm::kCsv && needs_quotes(text);
        buffer.clear();
        put_text(buffer, text, text_form);
        return std::string(buffer.text());
    };
    part.before = formed(fields[0]);
    part.behind = formed(fields[1]);
    part.form = static_cast<ValueForm>(nb::cast<int>(fields[2]));
    if (part.form != ValueForm::kNone) {
        part.values = numbers_in(nb::cast<AnyNumbers>(fields[3]), rows.count, rows.numbers);
    }
    if (part.form == ValueForm::kKey) {
        part.texts = nb::cast<const KeyedTexts*>(fields[4]);
    }
    part.where = flags_in(fields[5], rows.count, rows.flags);
    return part;
}

void read_description(const nb::list& columns, const std::optional<Choice>& chosen, TextForm text_form, Rows& rows) {
    for (const nb::handle column : columns) {
        CellColumn& cells = rows.columns.emplace_back();
        if (!nb::isinstance<nb::tuple>(column)) {
            cells.numbers = numbers_in(nb::cast<AnyNumbers>(column), rows.count, rows.numbers);
            continue;
        }
        const auto description = nb::cast<nb::tuple>(column);
        cells.is_text = true;
        for (const nb::handle parts : nb::cast<nb::tuple>(description[0])) {
            std::vector<TextPart>& shape = cells.shapes.emplace_back();
            for (const nb::handle part : nb::cast<nb::tuple>(parts)) {
                shape.push_back(part_of(part, text_form, rows));
            }
        }
        cells.shape_of_row = flags_in(description[1], rows.count, rows.flags);
        for (const nb::handle part : nb::cast<nb::tuple>(description[2])) {
            cells.otherwise.push_back(part_of(part, text_form, rows));
        }
        for (std::size_t row = 0; row < rows.count; ++row) {
            if ((cells.shape_of_row == nullptr ? 0 : cells.shape_of_row[row]) >= cells.shapes.size()) {
                throw nb::value_error("a shape that is none");
            }
        }
    }
    if (chosen) {
        for (std::size_t place = 0; place < chosen->size(); ++place) {
            if (chosen->data()[place] >= rows.count) {
                throw nb::value_error("a row that is none");
            }
        }
        rows.chosen = chosen;
    }
}

nb::tuple csv_rows(const nb::list& columns, std::size_t count, const std::optional<Choice>& chosen, std::size_t begin,
                   std::size_t most_bytes) {
    Rows rows;
    rows.count = count;
    read_description(columns, chosen, TextForm::kCsv, rows);
    ByteBuffer buffer;
    std::size_t end = 0;
    {
        const nb::gil_scoped_release released;
        end = put_csv_rows(buffer, rows.columns, rows.choice(), begin, most_bytes);
    }
    return nb::make_tuple(written(buffer), end);
}

nb::tuple database_rows(DatabaseWriter& writer, std::size_t table, const nb::list& columns, std::size_t count,
                        const std::optional<Choice>& chosen, std::size_t begin, std::size_t most_bytes) {
    Rows rows;
    rows.count = count;
    read_description(columns, chosen, TextForm::kPlain, rows);
    std::size_t end = 0;
    {
        const nb::gil_scoped_release released;
        end = writer.put_rows(table, rows.columns, rows.choice(), begin, most_bytes);
    }
    return nb::make_tuple(written(writer.pages()), end);
}

nb::tuple finished_database(DatabaseWriter& writer) {
    {
        const nb::gil_scoped_release released;
        writer.finish();
    }
    const auto& first = writer.first_page();
    return nb::make_tuple(written(writer.pages()), nb::bytes(first.data(), first.size()));
}

std::vector<std::uint64_t> new_keys(KeyedTexts& texts, const AnyNumbers& keys) {
    std::vector<AnyNumbers> kept;
    const Numbers numbers = numbers_in(keys, keys.shape(0), kept);
    std::vector<std::uint64_t> found;
    const nb::gil_scoped_release released;
    texts.find_new(numbers, keys.shape(0), found);
    return found;
}

}  // namespace

void define_dump_writing(nb::module_& module) {
    nb::class_<KeyedTexts>(module, "KeyedTexts", "Texts that rows name by number; 0 names none.")
        .def(
            "__init__",
            [](KeyedTexts* self, bool is_csv) { new (self) KeyedTexts(is_csv ? TextForm::kCsv : TextForm::kPlain); },
            nb::arg("is_csv"))
        .def("new_keys", &new_keys, nb::arg("keys"), nb::sig("def new_keys(self, keys: object) -> list[int]"),
             "Returns those numbers that were not asked for before, each once; they have no text until one is added.")
        .def(
            "add", [](KeyedTexts& self, std::uint64_t key, nb::str text) { self.add(key, utf8(text)); }, nb::arg("key"),
            nb::arg("text"), "Gives a number its text, once.")
        .def("clear", &KeyedTexts::clear, "Forgets everything.")
        .def_prop_ro("bytes", &KeyedTexts::bytes, "About how much memory it takes.");
    module.def(
        "csv_rows", &csv_rows, nb::arg("columns"), nb::arg("count"), nb::arg("chosen").none(), nb::arg("begin"),
        nb::arg("most_bytes"),
        nb::sig("def csv_rows(columns: list, count: int, chosen: object | None, begin: int, most_bytes: int) -> "
                "tuple[object, int]"),
        "Writes rows, see formats/dump/cells.py, as those of a CSV file: all or the chosen ones, from a place on until "
        "there are about so many bytes. Returns the bytes and the place of the next row.");
    nb::class_<DatabaseWriter>(module, "DatabaseWriter",
                               "A SQLite file page by page; pages are handed out in the order in which they lie in it.")
        .def(nb::init<>())
        .def("add_table", &DatabaseWriter::add_table, nb::arg("name"), nb::arg("statement"),
             "Begins a table, with the statement that creates one; returns its number.")
        .def("put_rows", &database_rows, nb::arg("table"), nb::arg("columns"), nb::arg("count"),
             nb::arg("chosen").none(), nb::arg("begin"), nb::arg("most_bytes"),
             nb::sig("def put_rows(self, table: int, columns: list, count: int, chosen: object | None, begin: int, "
                     "most_bytes: int) -> tuple[object, int]"),
             "Appends rows to a table; the same as `csv_rows`.")
        .def("finish", &finished_database, nb::sig("def finish(self) -> tuple[object, bytes]"),
             "Returns the last pages, and what the first one is to be overwritten with.");
}

}  // namespace msmemscope
