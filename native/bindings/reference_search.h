// Which objects of the program refer to memory. They are found by following references from where the program begins:
// the globals of its modules and the local variables of its threads. It also finds the cycles of references that
// nothing leads to.
//
// No Python code runs, and nothing is changed. Only the returned objects are kept alive. All of it needs the GIL.
#pragma once

#include <Python.h>

namespace msmemscope {

// METH_VARARGS: find_references(roots, memory_kinds, reference_kinds, late_kinds, addresses, limit_ns, most_paths)
//     -> (paths, holders, tree, is_complete)
// - roots: list of objects. All objects that can be reached from the first one are looked at before the second, and so
//   on. If two lead to the same memory, the path begins with the first. A frame is followed to its local variables too.
// - memory_kinds: list of (type, function of C that returns the address of an object's memory).
// - reference_kinds: list of (type, descriptor of C), of objects that the garbage collector does not follow.
// - late_kinds: tuple of types whose objects refer to things of others. They are followed after all else that their
//   root leads to.
// - addresses: dict whose keys are wanted addresses of memory.
// - limit_ns: time of the thread's processor, for the walk. Making the paths may take a quarter of it more.
// - paths: list of lists of objects, each from a root to an object with wanted memory, the shortest from its root. At
//   most most_paths lead to one object.
// - holders: list of all objects of memory_kinds that were met.
// - tree: the shortest path to each of the holders, for paths_to.
// - is_complete: False if the time ran out.
PyObject* find_references(PyObject* self, PyObject* arguments);

// METH_VARARGS: find_cycles(roots, memory_kinds, reference_kinds, late_kinds, addresses, objects, rest, limit_ns)
//     -> (found, is_complete)
//
// The same for objects that no root leads to: those of the list rest that a cycle of references keeps alive. Wanted are
// also the objects whose ids are in the set objects. The list found has pairs (path, cycle). A path leads from an
// object of a cycle to a wanted object. The cycle leads from that first object back to itself, so it is its first and
// its last.
PyObject* find_cycles(PyObject* self, PyObject* arguments);

// METH_O: frame_locals(frame) -> list of (name, value), of a frame that runs or is suspended. Unlike f_locals of older
// Pythons it leaves nothing in the frame that would keep the values alive.
PyObject* frame_locals(PyObject* self, PyObject* frame);

extern PyMethodDef kReferenceMethods[];

}  // namespace msmemscope
