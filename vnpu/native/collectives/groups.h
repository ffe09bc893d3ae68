// Groups of calls (HcclGroupStart, HcclGroupEnd): messages between the two are moved together at the end, as one batch.
// Collectives in a group are made at once; all ranks call them in the same order anyway. A group belongs to a thread.
#pragma once

#include "interface.h"

namespace virtual_npu {

bool in_group();
// A message that waits for the end of the calling thread's group.
void add_to_group(void* communicator, const BatchItem& item, void* stream);

}  // namespace virtual_npu
