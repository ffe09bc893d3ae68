// The communicators of this process by the handles that were given out. A call holds its communicator, so that one that
// another thread destroys meanwhile ends when the last call has returned.
#pragma once

#include <memory>

#include "communicator.h"

namespace virtual_npu {

// The handle.
void* add_communicator(std::shared_ptr<Communicator> communicator);
// Null, with an error text, if the handle is none.
std::shared_ptr<Communicator> find_communicator(void* handle, const char* call);
std::shared_ptr<Communicator> remove_communicator(void* handle);

}  // namespace virtual_npu
