// Observer hal: every block that the driver gives out, and host memory that is registered with the runtime.
//
// Device memory of all users ends in halMemAlloc or halMemCreate of libascend_hal.so, which the runtime calls through
// its GOT; so does pinned host memory. Physical memory (halMemCreate) has no address of its own: the handle stands for
// it. Device numbers are the driver's: ASCEND_RT_VISIBLE_DEVICES has been applied above it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/patcher.h"
#include "observers/hal/allocation_flags.h"

namespace msmemscope::hal {

int hooked_alloc(void** pointer, unsigned long long size, unsigned long long flag);
int hooked_free(void* pointer);
int hooked_create(void** handle, std::size_t size, const MemoryProperties* properties, std::uint64_t flag);
int hooked_release(void* handle);
int hooked_register(void* pointer, std::uint64_t size, std::uint32_t flag);
int hooked_unregister(void* pointer);
int hooked_register_implementation(void* pointer, std::uint64_t size, std::uint32_t flag);
int hooked_unregister_implementation(void* pointer);

// The real functions; null until they are known.
extern int (*next_alloc)(void**, unsigned long long, unsigned long long);
extern int (*next_free)(void*);
extern int (*next_create)(void**, std::size_t, const MemoryProperties*, std::uint64_t);
extern int (*next_release)(void*);
extern int (*next_register)(void*, std::uint64_t, std::uint32_t);
extern int (*next_unregister)(void*);
extern int (*next_register_implementation)(void*, std::uint64_t, std::uint32_t);
extern int (*next_unregister_implementation)(void*);

inline const Hook kHooks[] = {
    {nullptr, "halMemAlloc", reinterpret_cast<void*>(&hooked_alloc), reinterpret_cast<void**>(&next_alloc), "hal",
     false},
    {nullptr, "halMemFree", reinterpret_cast<void*>(&hooked_free), reinterpret_cast<void**>(&next_free), "hal", false},
    {nullptr, "halMemCreate", reinterpret_cast<void*>(&hooked_create), reinterpret_cast<void**>(&next_create), "hal",
     false},
    {nullptr, "halMemRelease", reinterpret_cast<void*>(&hooked_release), reinterpret_cast<void**>(&next_release), "hal",
     false},
    {nullptr, "aclrtHostRegisterV2", reinterpret_cast<void*>(&hooked_register),
     reinterpret_cast<void**>(&next_register), "hal", false},
    {nullptr, "aclrtHostUnregister", reinterpret_cast<void*>(&hooked_unregister),
     reinterpret_cast<void**>(&next_unregister), "hal", false},
    // What the two become below libascendcl.so: a program that looks their names up (torch_npu) calls no GOT of its
    // own.
    {nullptr, "aclrtHostRegisterV2Impl", reinterpret_cast<void*>(&hooked_register_implementation),
     reinterpret_cast<void**>(&next_register_implementation), "hal", false},
    {nullptr, "aclrtHostUnregisterImpl", reinterpret_cast<void*>(&hooked_unregister_implementation),
     reinterpret_cast<void**>(&next_unregister_implementation), "hal", false},
};

}  // namespace msmemscope::hal
