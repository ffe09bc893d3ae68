#include "dump_rows.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dump_rows/chosen_rows.h"
#include "dump_rows/dump_rows.h"
#include "dump_rows/row_relations.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

// Gives a column to Python without copying it.
template <typename Number>
using Column = nb::ndarray<nb::numpy, Number, nb::ndim<1>>;

template <typename Number>
Column<Number> column_of(std::vector<Number> numbers) {
    auto* const kept = new std::vector<Number>(std::move(numbers));
    const nb::capsule owner(kept, [](void* vector) noexcept { delete static_cast<std::vector<Number>*>(vector); });
    return Column<Number>(kept->data(), {kept->size()}, owner);
}

template <typename Number>
void add_column(nb::dict& columns, const char* name, std::vector<Number>& numbers) {
    columns[name] = column_of(std::move(numbers));
}

// The bytes of any object that has some: bytes, or a bytearray that is used again and again.
class Content {
public:
    explicit Content(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) {
            throw nb::python_error();
        }
    }
    ~Content() { PyBuffer_Release(&view_); }
    Content(const Content&) = delete;
    Content& operator=(const Content&) = delete;

    const char* data() const { return static_cast<const char*>(view_.buf); }
    std::size_t size() const { return static_cast<std::size_t>(view_.len); }

private:
    Py_buffer view_;
};

// Returns whether all of it is UTF-8.
bool add_texts(nb::dict& columns, const char* name, std::vector<std::uint32_t>& numbers, const TextTable& table) {
    nb::list texts;
    for (const std::string_view text : table.texts()) {
        PyObject* const decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
        if (decoded == nullptr) {
            if (PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) == 0) {
                throw nb::python_error();
            }
            PyErr_Clear();
            return false;
        }
        texts.append(nb::steal(decoded));
    }
    add_column(columns, name, numbers);
    columns[nb::str((std::string(name) + "_texts").c_str())] = texts;
    return true;
}

std::optional<nb::dict> read_rows(nb::handle object, std::size_t end) {
    const Content content(object);
    if (end > content.size()) {
        throw nb::value_error("an end that lies outside");
    }
    DumpRows rows;
    bool is_usual = false;
    {
        const nb::gil_scoped_release released;
        is_usual = read_dump_rows({content.data(), end}, rows);
    }
    nb::dict columns;
    if (!is_usual || !add_texts(columns, "words", rows.words, rows.words_texts) ||
        !add_texts(columns, "device", rows.device, rows.device_texts) ||
        !add_texts(columns, "name", rows.name, rows.name_texts) ||
        !add_texts(columns, "rest", rows.rest, rows.rest_texts) ||
        !add_texts(columns, "attributes", rows.attributes, rows.attributes_texts) ||
        !add_texts(columns, "python_stack", rows.python_stack, rows.python_stack_texts) ||
        !add_texts(columns, "native_stack", rows.native_stack, rows.native_stack_texts)) {
        return std::nullopt;
    }
    add_column(columns, "sequence", rows.sequence);
    add_column(columns, "timestamp_ns", rows.timestamp_ns);
    add_column(columns, "process_id", rows.process_id);
    add_column(columns, "thread_id", rows.thread_id);
    add_column(columns, "address", rows.address);
    add_column(columns, "has_address", rows.has_address);
    add_column(columns, "allocation_id", rows.allocation_id);
    add_column(columns, "size", rows.size);
    add_column(columns, "extra", rows.extra);
    add_column(columns, "total", rows.total);
    add_column(columns, "used", rows.used);
    add_column(columns, "process_used", rows.process_used);
    add_column(columns, "device_used", rows.device_used);
    add_column(columns, "pinned", rows.pinned);
    return columns;
}

using Numbers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Identities = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dict find_chosen_rows(const nb::bytes& content, const std::optional<Identities>& ids, std::uint64_t process_id,
                          const std::tuple<int, int, int>& columns, bool is_last) {
    ChosenRows rows;
    {
        const nb::gil_scoped_release released;
        const auto [event, process, attributes] = columns;
        rows = choose_rows({content.c_str(), content.size()},
                           {ids ? ids->data() : nullptr, ids ? ids->size() : 0, process_id, event, process, attributes},
                           is_last);
    }
    nb::dict found;
    add_column(found, "begin", rows.begin);
    add_column(found, "id", rows.id);
    add_column(found, "place", rows.place);
    found["end"] = rows.end;
    return found;
}

nb::bytes replace_parts(const nb::bytes& content, const Numbers& begins, const Numbers& ends, const Numbers& numbers,
                        const std::vector<nb::bytes>& texts) {
    if (begins.size() != ends.size() || begins.size() != numbers.size()) {
        throw nb::value_error("columns of different lengths");
    }
    std::int64_t copied = 0;
    std::size_t size = content.size();
    for (std::size_t part = 0; part < begins.size(); ++part) {
        const std::int64_t begin = begins.data()[part];
        const std::int64_t end = ends.data()[part];
        const std::int64_t number = numbers.data()[part];
        if (begin < copied || end < begin || end > static_cast<std::int64_t>(content.size()) || number < 0 ||
            number >= static_cast<std::int64_t>(texts.size())) {
            throw nb::value_error("parts that overlap, are not in order, or lie outside");
        }
        size = size - static_cast<std::size_t>(end - begin) + texts[static_cast<std::size_t>(number)].size();
        copied = end;
    }
    PyObject* const result = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    if (result == nullptr) {
        throw nb::python_error();
    }
    char* target = PyBytes_AS_STRING(result);
    const char* source = content.c_str();
    for (std::size_t part = 0; part < begins.size(); ++part) {
        const nb::bytes& text = texts[static_cast<std::size_t>(numbers.data()[part])];
        target = std::copy(source, content.c_str() + begins.data()[part], target);
        target = std::copy(text.c_str(), text.c_str() + text.size(), target);
        source = content.c_str() + ends.data()[part];
    }
    std::copy(source, content.c_str() + content.size(), target);
    return nb::steal<nb::bytes>(result);
}

using Roles = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TextNumbers = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const RowRole* roles_of(const Roles& roles, std::size_t first_length, std::size_t second_length) {
    if (roles.size() != first_length || roles.size() != second_length) {
        throw nb::value_error("columns of different lengths");
    }
    return reinterpret_cast<const RowRole*>(roles.data());
}

Column<std::uint64_t> blocks_of_rows(const Roles& roles, const Identities& allocation_ids,
                                     const Identities& sequences) {
    const RowRole* const known = roles_of(roles, allocation_ids.size(), sequences.size());
    std::vector<std::uint64_t> found(roles.size());
    {
        const nb::gil_scoped_release released;
        find_blocks(known, allocation_ids.data(), sequences.data(), roles.size(), found.data());
    }
    return column_of(std::move(found));
}

Column<std::uint32_t> outermost_operators(const Roles& roles, const TextNumbers& threads, const TextNumbers& names) {
    const RowRole* const known = roles_of(roles, threads.size(), names.size());
    std::vector<std::uint32_t> found(roles.size());
    {
        const nb::gil_scoped_release released;
        find_outermost_operators(known, threads.data(), names.data(), roles.size(), found.data());
    }
    return column_of(std::move(found));
}

std::int64_t count_byte(nb::handle object, std::size_t begin, std::size_t end, const nb::bytes& byte) {
    const Content content(object);
    if (byte.size() != 1 || begin > end || end > content.size()) {
        throw nb::value_error("not one byte, or a part that lies outside");
    }
    const nb::gil_scoped_release released;
    return std::count(content.data() + begin, content.data() + end, byte.c_str()[0]);
}

}  // namespace

void define_dump_rows(nb::module_& module) {
    module.def("read_dump_rows", &read_rows, nb::arg("content"), nb::arg("end"),
               "Reads whole rows of a CSV dump, up to `end`, as it is usually written. Returns columns by name, of "
               "texts their "
               "numbers from 1 "
               "and under NAME_texts the texts; None if any row is not usual.");
    module.def(
        "find_chosen_rows", &find_chosen_rows, nb::arg("content"), nb::arg("ids").none(), nb::arg("process_id"),
        nb::arg("columns"), nb::arg("is_last"),
        "Finds the rows of a CSV dump whose ID is one of ascending numbers, or all rows. Returns `begin` of each, the "
        "place of "
        "its `id` among them, the `place` where an attribute goes in or -1, and the `end` of the last whole row. "
        "The columns are the places of Event, Process Id and Attr.");
    module.def("replace_parts", &replace_parts, nb::arg("content"), nb::arg("begins"), nb::arg("ends"),
               nb::arg("numbers"), nb::arg("texts"),
               "Returns content with some parts replaced by one of the texts each.");
    module.def("blocks_of_rows", &blocks_of_rows, nb::arg("roles"), nb::arg("allocation_ids"), nb::arg("sequences"),
               "Returns the sequence of the MALLOC of each FREE and ACCESS, by allocation ids; 0 where there is none.");
    module.def("outermost_operators", &outermost_operators, nb::arg("roles"), nb::arg("threads"), nb::arg("names"),
               "Returns the name of the outermost operator that runs on the thread of each row; 0 where none does.");
    module.def("count_byte", &count_byte,
               nb::sig("def count_byte(content: bytes | bytearray, begin: int, end: int, byte: bytes) -> int"),
               nb::arg("content"), nb::arg("begin"), nb::arg("end"), nb::arg("byte"),
               "Counts a byte in a part of the content.");
}

}  // namespace msmemscope
