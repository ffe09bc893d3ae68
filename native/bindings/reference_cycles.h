// Cycles of references that nothing leads to: what waits for the garbage collector.
#pragma once

#include <Python.h>

#include "reference_walk.h"

namespace msmemscope {

// Appends (path, cycle) to the list `found` for each wanted object that is kept by a cycle among the objects of the
// list `rest` that are not in `reached`; see find_cycles. False with an exception. Stops early where the time runs out.
bool append_cycles(const Wanted& wanted, const Met& reached, PyObject* rest, Deadline& deadline, PyObject* found);

}  // namespace msmemscope
