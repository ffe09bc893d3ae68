// Looks at the containers of the program: which have more entries than at the looks before.
//
// A container is known by its address and its type; nothing of the program is kept alive. All of it needs the GIL.
#pragma once

#include <Python.h>

namespace msmemscope {

// METH_VARARGS: growing_containers(roots, first_roots, deque, limit_ns, most)
//     -> (found, largest, is_complete)
//
// One look. Lists, dictionaries, sets and deques count, and so do the objects of each class of the program.
// - roots: list of objects, as in reference_search.h.
// - first_roots: how many of them are the program's. The walk from these is done before the other roots, and it is
//   breadth-first.
// - deque: the type of deques.
// - limit_ns: time of the thread's processor.
// - most: how many are returned, those that have grown by most.
// - found: list of (path, entries, first_entries, first_sequence). The path leads from a root to the container, or to
//   one of the objects of a class. Each has grown from look to look, and also since the last one.
// - largest: list of (path, entries), of the few containers with most entries, whether they grow or not.
// - is_complete: False if the time ran out, or there are too many objects. Classes are then not looked at.
PyObject* growing_containers(PyObject* self, PyObject* arguments);

// METH_NOARGS: forget_containers(), as in a forked process: nothing was looked at yet.
PyObject* forget_containers(PyObject* self, PyObject* arguments);

// METH_VARARGS: await_container_look(delay_ns, look): calls look() once, when a sample of host memory is taken that
// much later. The main thread does so between two of its instructions. A delay below 0 awaits no look any more.
PyObject* await_container_look(PyObject* self, PyObject* arguments);

// METH_VARARGS: note_container(address, chain, container_type, entry_type, entries, first_entries, first_sequence,
//     bytes)
PyObject* note_container(PyObject* self, PyObject* arguments);

extern PyMethodDef kContainerMethods[];

}  // namespace msmemscope
