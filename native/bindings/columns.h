// Columns of numbers for Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace msmemscope {

template <typename Number>
using Column = nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>>;

// Gives a column to Python without copying it.
template <typename Number>
Column<Number> column_of(std::vector<Number> numbers) {
    auto* const kept = new std::vector<Number>(std::move(numbers));
    const nanobind::capsule owner(kept,
                                  [](void* vector) noexcept { delete static_cast<std::vector<Number>*>(vector); });
    return Column<Number>(kept->data(), {kept->size()}, owner);
}

}  // namespace msmemscope
