// Which objects of the program refer to tensors, found by following references from where the program begins: the
// globals of its modules and the local variables of its threads.
//
// References are read with tp_traverse, as the garbage collector reads them: no Python code runs, nothing is changed,
// and nothing is kept alive but the paths that are returned. All of it needs the GIL.
#pragma once

#include <Python.h>

namespace msmemscope {

// METH_VARARGS: find_references(roots, tensor_type, storage_address, addresses, objects, rest, limit_ns, most_paths)
//     -> (paths, tensors, visited, is_complete)
// roots: list of objects to begin with, in this order; of a frame its local variables, else what it refers to.
// storage_address(tensor): must be a function of C. addresses: dict whose keys are addresses of storages; objects: set
// of ids of objects: what is looked for. rest: list of objects; where it is not empty, what was not reached from the
// roots is looked for from these, and tensors among them. paths: list of lists of objects, each from a root (or one of
// rest) to a tensor that was looked for, shortest first; no more than most_paths to one tensor. tensors: list of all
// tensors that were met. visited: how many objects. limit_ns: of the thread's processor. is_complete: False when the
// time ran out.
PyObject* find_references(PyObject* self, PyObject* arguments);

// METH_O: frame_locals(frame) -> list of (name, value), of a frame that runs or is suspended. Unlike f_locals of older
// Pythons it leaves nothing in the frame that would keep the values alive.
PyObject* frame_locals(PyObject* self, PyObject* frame);

extern PyMethodDef kReferenceMethods[];

}  // namespace msmemscope
