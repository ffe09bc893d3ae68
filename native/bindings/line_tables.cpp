#include "line_tables.h"

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>

#include "core/format/definition.h"
#include "offline/line_tables/line_tables.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

std::optional<std::int64_t> line_of(const nb::bytes& table, std::uint32_t table_format, std::int64_t first_line,
                                    std::uint64_t offset) {
    const auto format = static_cast<format::LineTableFormat>(table_format);
    if (format != format::LineTableFormat::kPython310 && format != format::LineTableFormat::kPython311) {
        return std::nullopt;
    }
    return line_of_offset(format == format::LineTableFormat::kPython310 ? LineTable::kPython310 : LineTable::kPython311,
                          static_cast<const unsigned char*>(table.data()), table.size(), first_line, offset);
}

}  // namespace

void define_line_tables(nb::module_& module) {
    module.def("line_of_offset", &line_of, nb::arg("table"), nb::arg("table_format"), nb::arg("first_line"),
               nb::arg("offset"), "The line of a bytecode instruction, None if it has none; see line_tables.h.");
}

}  // namespace msmemscope
