// Observer acl: when the runtime is initialised and finalised, and which device and stream a thread is on.
#pragma once

#include <cstdint>

#include "interpose/patcher.h"

namespace msmemscope::acl {

int hooked_init(const char* configuration_path);
int hooked_finalize();
int hooked_set_device(std::int32_t device);

// The real functions; null until they are known.
extern int (*next_init)(const char*);
extern int (*next_finalize)();
extern int (*next_set_device)(std::int32_t);

// The driver's number of the calling thread's current device; -1 where that cannot be told. Asks the runtime: nothing
// that it does meanwhile is recorded.
int current_device() noexcept;

// The runtime's number of a stream, -1 where that cannot be told.
std::int32_t current_stream_id(void* stream) noexcept;

inline const Hook kHooks[] = {
    {nullptr, "aclInit", reinterpret_cast<void*>(&hooked_init), reinterpret_cast<void**>(&next_init), "acl", false},
    {nullptr, "aclFinalize", reinterpret_cast<void*>(&hooked_finalize), reinterpret_cast<void**>(&next_finalize), "acl",
     false},
    {nullptr, "aclrtSetDevice", reinterpret_cast<void*>(&hooked_set_device), reinterpret_cast<void**>(&next_set_device),
     "acl", false},
};

}  // namespace msmemscope::acl
