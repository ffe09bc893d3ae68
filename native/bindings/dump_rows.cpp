#include "dump_rows.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "columns.h"
#include "offline/dump_rows/chosen_rows.h"
#include "offline/dump_rows/database_rows.h"
#include "offline/dump_rows/dump_rows.h"
#include "offline/dump_rows/row_relations.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

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

// Rows by the names of their columns; None if a text is not UTF-8.
std::optional<nb::dict> columns_of(DumpRows& rows) {
    nb::dict columns;
    if (!add_texts(columns, "words", rows.words, rows.words_texts) ||
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
    return is_usual ? columns_of(rows) : std::nullopt;
}

std::optional<nb::dict> leaves_of_table(int descriptor, std::uint32_t root_page) {
    DatabaseLeaves leaves;
    bool is_usual = false;
    {
        const nb::gil_scoped_release released;
        is_usual = find_database_leaves(descriptor, root_page, leaves);
    }
    if (!is_usual) {
        return std::nullopt;
    }
    nb::dict found;
    found["page_bytes"] = leaves.page_bytes;
    found["usable_bytes"] = leaves.usable_bytes;
    add_column(found, "pages", leaves.pages);
    add_column(found, "last_rows", leaves.last_rows);
    return found;
}

using Pages = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::optional<nb::dict> read_leaves(int descriptor, std::uint32_t page_bytes, std::uint32_t usable_bytes,
                                    const Pages& pages) {
    DumpRows rows;
    bool is_usual = false;
    {
        const nb::gil_scoped_release released;
        is_usual = read_database_rows({descriptor, page_bytes, usable_bytes, pages.data(), pages.size()}, rows);
    }
    return is_usual ? columns_of(rows) : std::nullopt;
}

using Numbers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Identities = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dict find_chosen_rows(nb::handle object, std::size_t length, const std::optional<Identities>& ids,
                          std::uint64_t process_id, const std::tuple<int, int, int>& columns, bool is_last) {
    const Content content(object);
    if (length > content.size()) {
        throw nb::value_error("an end that lies outside");
    }
    ChosenRows rows;
    {
        const nb::gil_scoped_release released;
        const auto [event, process, attributes] = columns;
        rows = choose_rows({content.data(), length},
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

// Writes all of some pieces of memory, however little a call takes. Returns false with errno set.
bool write_all(int descriptor, std::vector<iovec>& pieces) {
    constexpr std::size_t kMostPieces = 1024;  // IOV_MAX
    std::size_t first = 0;
    while (first < pieces.size()) {
        const std::size_t count = std::min(pieces.size() - first, kMostPieces);
        const ssize_t written = writev(descriptor, &pieces[first], static_cast<int>(count));
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        auto left = static_cast<std::size_t>(written);
        while (first < pieces.size() && left >= pieces[first].iov_len) {
            left -= pieces[first++].iov_len;
        }
        if (left > 0) {
            pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + left;
            pieces[first].iov_len -= left;
        }
    }
    return true;
}

void write_with_parts(int descriptor, nb::handle object, std::size_t length, const Numbers& begins, const Numbers& ends,
                      const Numbers& numbers, const std::vector<nb::bytes>& texts) {
    const Content content(object);
    if (length > content.size() || begins.size() != ends.size() || begins.size() != numbers.size()) {
        throw nb::value_error("columns of different lengths, or an end that lies outside");
    }
    std::vector<iovec> pieces;
    pieces.reserve(2 * begins.size() + 1);
    const auto add = [&pieces](const char* from, std::size_t bytes) {
        if (bytes != 0) {
            pieces.push_back({const_cast<char*>(from), bytes});
        }
    };
    std::size_t copied = 0;
    for (std::size_t part = 0; part < begins.size(); ++part) {
        const auto begin = static_cast<std::size_t>(begins.data()[part]);
        const auto end = static_cast<std::size_t>(ends.data()[part]);
        const auto number = static_cast<std::size_t>(numbers.data()[part]);
        if (begin < copied || end < begin || end > length || number >= texts.size()) {
            throw nb::value_error("parts that overlap, are not in order, or lie outside");
        }
        add(content.data() + copied, begin - copied);
        add(texts[number].c_str(), texts[number].size());
        copied = end;
    }
    add(content.data() + copied, length - copied);
    bool is_written = false;
    int error = 0;
    {
        const nb::gil_scoped_release released;
        is_written = write_all(descriptor, pieces);
        error = errno;
    }
    if (!is_written) {
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
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
        "leaves_of_table", &leaves_of_table, nb::arg("descriptor"), nb::arg("root_page"),
        "Finds the leaves of a table of a SQLite file, in the order of its rows: their `pages`, the rowid that no "
        "row of each is above (`last_rows`), and `page_bytes` and `usable_bytes`; None if the file is not usual.");
    module.def(
        "read_database_rows", &read_leaves,
        nb::sig("def read_database_rows(descriptor: int, page_bytes: int, usable_bytes: int, pages: object) -> "
                "dict | None"),
        "Reads the rows of leaves of a table whose columns are those of a dump; returns what `read_dump_rows` does, "
        "the texts of `rest` without the brace in front of them. None if any row is not usual.");
    module.def(
        "find_chosen_rows", &find_chosen_rows,
        nb::sig("def find_chosen_rows(content: bytes | bytearray, length: int, ids: object | None, "
                "process_id: int, columns: tuple[int, int, int], is_last: bool) -> dict"),
        nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
        "Finds the rows of a CSV dump, up to a length, whose ID is one of ascending numbers, or all rows. Returns "
        "`begin` of each, the place of its `id` among them, the `place` where an attribute goes in or -1, and the "
        "`end` of the last whole row. The columns are the places of Event, Process Id and Attr.");
    module.def("write_with_parts", &write_with_parts,
               nb::sig("def write_with_parts(descriptor: int, content: bytes | bytearray, length: int, begins: object, "
                       "ends: object, numbers: object, texts: list[bytes]) -> None"),
               "Writes content up to a length into a file, with some parts replaced by one of the texts each. Raises "
               "OSError.");
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
