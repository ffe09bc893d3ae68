// Messages from rank to rank.
#pragma once

#include "interface.h"

namespace virtual_npu {

// Moves all messages, in whatever order they can move; those between the same two ranks in the same direction keep
// theirs. Returns 0 or a Result, with the error text set.
int run_batch(void* communicator, const BatchItem* items, uint32_t count, const char* call);

}  // namespace virtual_npu
