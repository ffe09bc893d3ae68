#include "block_stack.h"

#include <nanobind/ndarray.h>

#include <cstdint>

#include "columns.h"
#include "offline/block_stack/block_stack.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

using Rows = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sizes = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object stacked_pieces(const Rows& begins, const Rows& ends, const Sizes& sizes, std::size_t most) {
    const std::size_t count = begins.shape(0);
    if (ends.shape(0) != count || sizes.shape(0) != count) {
        throw nb::value_error("not as many begins, ends and sizes");
    }
    std::optional<StackPieces> pieces;
    {
        const nb::gil_scoped_release released;
        pieces = stack_blocks(begins.data(), ends.data(), sizes.data(), count, most);
    }
    if (!pieces) {
        return nb::none();
    }
    return nb::make_tuple(column_of(std::move(pieces->blocks)), column_of(std::move(pieces->begins)),
                          column_of(std::move(pieces->ends)), column_of(std::move(pieces->lows)));
}

}  // namespace

void define_block_stack(nb::module_& module) {
    module.def(
        "stacked_pieces", &stacked_pieces, nb::arg("begins"), nb::arg("ends"), nb::arg("sizes"), nb::arg("most"),
        "Stacks blocks, given in the order of their begins, on each other: for each piece the index of its block, "
        "the rows between which it lies there, and the bytes below it; None if there are more than `most`.");
}

}  // namespace msmemscope
