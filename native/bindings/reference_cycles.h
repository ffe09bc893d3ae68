// Cycles of references that nothing leads to: what waits for the garbage collector.
#pragma once

#include <Python.h>

#include "reference_walk.h"

namespace msmemscope {

// Finds each wanted object that a cycle keeps alive, among the objects of the list `rest` that are not in `reached`.
// Appends (path, cycle) for it to the list `found`; see find_cycles. False with an exception. Stops early if the time
// runs out.
bool append_cycles(const Wanted& wanted, const Met& reached, PyObject* rest, Deadline& deadline, PyObject* found);

}  // namespace msmemscope
