// The paths of a walk, kept for a second question: which way led to an object with memory.
//
// It references the objects of these paths. Python code may run, and other threads with it, before the question comes.
#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "reference_walk.h"

namespace msmemscope {

// A new capsule with the paths from the roots of a walk to the objects at some places; null with an exception.
PyObject* new_reference_tree(const Met& met, const std::vector<std::size_t>& places);

// METH_VARARGS: paths_to(tree, objects) -> list of paths, as find_references returns them
// - tree: of find_references.
// - objects: set of ids of objects with memory. There is no path to one that the tree does not have.
PyObject* paths_to(PyObject* self, PyObject* arguments);

}  // namespace msmemscope
