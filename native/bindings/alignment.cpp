#include "alignment.h"

#include <cstdint>

#include "offline/alignment/alignment.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

const std::uint32_t* numbers_of(const nb::bytes& bytes) {
    if (bytes.size() % sizeof(std::uint32_t) != 0 ||
        reinterpret_cast<std::uintptr_t>(bytes.c_str()) % alignof(std::uint32_t) != 0) {
        throw nb::value_error("not a sequence of 32-bit numbers");
    }
    return reinterpret_cast<const std::uint32_t*>(bytes.c_str());
}

nb::tuple align_numbers(const nb::bytes& first, const nb::bytes& second, std::int64_t most_steps) {
    const std::uint32_t* const first_numbers = numbers_of(first);
    const std::uint32_t* const second_numbers = numbers_of(second);
    Alignment found;
    {
        const nb::gil_scoped_release released;
        found = align(first_numbers, first.size() / sizeof(std::uint32_t), second_numbers,
                      second.size() / sizeof(std::uint32_t), most_steps);
    }
    return nb::make_tuple(
        nb::bytes(reinterpret_cast<const char*>(found.partners.data()), found.partners.size() * sizeof(std::int64_t)),
        found.is_longest);
}

}  // namespace

void define_alignment(nb::module_& module) {
    module.def("align", &align_numbers, nb::arg("first"), nb::arg("second"), nb::arg("most_steps"),
               "Finds the longest common subsequence of two sequences of 32-bit numbers, given as bytes: for each "
               "element of the first the index of its partner in the second or -1, as 64-bit numbers; and whether it "
               "is known to be the longest.");
}

}  // namespace msmemscope
