// Memory of the host that a program registers with the runtime, in libascendcl_impl.so. The device sees it at the same
// address.
#pragma once

#include <cstdint>

extern "C" {

int aclrtHostRegisterV2Impl(void* pointer, uint64_t bytes, uint32_t flags);
int aclrtHostRegisterImpl(void* pointer, uint64_t bytes, int type, void** device_pointer);
int aclrtHostUnregisterImpl(void* pointer);

}  // extern "C"
