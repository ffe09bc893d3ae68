// The memory that an operator may write, and its results, as the watch wants to know them. Asked only while something
// is watched. Python runs in here, so no recording scope may be open. All of it needs the GIL.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "tensor_reader.h"
#include "watch/watch.h"

namespace msmemscope {

// Arguments that an operator may write, by position and by name (interned).
struct WrittenArguments {
    std::vector<Py_ssize_t> positions;
    std::vector<PyObject*> names;
    // Written after the operator has returned, too.
    bool come_later = false;
};

struct WatchedCall {
    const std::string* name;
    std::uint64_t number;
};

// Two tuples, of int and of str. False with an error set if they are something else.
bool read_written(PyObject* positions, PyObject* names, WrittenArguments& written);

void watch_operator_begins(const WatchedCall& call, const WrittenArguments& written, PyObject* args, PyObject* kwargs);
// result: None where the operator failed.
void watch_operator_ends(const WatchedCall& call, const WrittenArguments& written, const std::vector<Use>& outputs,
                         PyObject* result);

// A compiled graph runs on the calling thread, and may write the inputs in this list. False while nothing is watched.
// Then do not tell of its end.
bool watch_graph_begins(PyObject* inputs);
void watch_graph_ends();

// The Python function that makes the device finish its work. It is called before every look at the device's memory.
void set_watch_synchronize(PyObject* function);

// The memory of a view: shape and strides in elements. False if it has none.
bool content_of_view(std::uint64_t address, std::uint64_t item_bytes, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, watch::Content& content);

}  // namespace msmemscope
