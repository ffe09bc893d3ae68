// Which objects of the program refer to memory, found by following references from where the program begins: the
// globals of its modules and the local variables of its threads; and which cycles of references that nothing leads to.
//
// No Python code runs, nothing is changed, and nothing is kept alive but what is returned. All of it needs the GIL.
#pragma once

#include <Python.h>

namespace msmemscope {

// METH_VARARGS: find_references(roots, memory_kinds, reference_kinds, late_kinds, addresses, objects, limit_ns,
//     most_paths)
//     -> (paths, holders, is_complete)
// roots: list of objects. All that can be reached from the first one is looked at before the second, and so on: where
// two lead to the same memory, the path begins with the first. Of a frame its local variables, else what it refers to.
// memory_kinds: list of (type, function of C that returns the address of an object's memory). reference_kinds: list of
// (type, descriptor of C), of objects that the garbage collector does not follow. late_kinds: tuple of types whose
// objects are followed after all else that their root leads to: they refer to what is another's. addresses: dict whose
// keys are addresses; objects: set of ids of objects: what is looked for. paths: list of lists of objects, each from a
// root to what was looked for, the shortest from its root; no more than most_paths to one object. holders: list of all
// objects of memory_kinds that were met. limit_ns: of the thread's processor. is_complete: False when the time ran out.
PyObject* find_references(PyObject* self, PyObject* arguments);

// METH_VARARGS: find_cycles(roots, memory_kinds, reference_kinds, late_kinds, addresses, objects, rest, limit_ns)
//     -> (found, is_complete)
// The same for objects that no root leads to: those of the list rest that a cycle of references keeps alive. found:
// list of (path, cycle), a path from an object of a cycle to what was looked for, and the way from that object back to
// itself, which is its first and its last.
PyObject* find_cycles(PyObject* self, PyObject* arguments);

// METH_O: frame_locals(frame) -> list of (name, value), of a frame that runs or is suspended. Unlike f_locals of older
// Pythons it leaves nothing in the frame that would keep the values alive.
PyObject* frame_locals(PyObject* self, PyObject* frame);

extern PyMethodDef kReferenceMethods[];

}  // namespace msmemscope
