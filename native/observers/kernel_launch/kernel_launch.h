// Observer kernel_launch: which kernels are launched, on which stream, and when the device ran them.
//
// A launch function is called with a handle and not with a name. The name comes from the runtime's own reports to
// profilers, made during the call: so the events are made there (kernel_reports.h), and the wrappers here only note
// when a launch began and open the device's log of tasks (task_channel.h) before the first one. Arguments are passed on
// as they are: the structures that they point at differ from version to version of CANN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/patcher.h"

namespace msmemscope::kernel_launch {

using Handle = void*;
using Data = const void*;

int launch_stub(Data stub, std::uint32_t blocks, Handle arguments, std::uint32_t argument_bytes, Handle description,
                Handle stream);
int launch_with_handle(Handle handle, std::uint64_t tiling_key, std::uint32_t blocks, Handle arguments,
                       Handle description, Handle stream, Data configuration);
int launch_with_flag(Data stub, std::uint32_t blocks, Handle arguments, Handle description, Handle stream,
                     std::uint32_t flags, Data configuration);
int launch_on_ai_cpu(std::uint32_t kernel_type, const char* name, std::uint32_t blocks, Data arguments,
                     Handle description, Handle stream, std::uint32_t flags);
int launch_function(Handle function, std::uint32_t blocks, Handle arguments, Handle stream);
int launch_function_v2(Handle function, std::uint32_t blocks, Handle arguments, Handle stream, Data configuration);
int acl_launch(Handle function, std::uint32_t blocks, Data arguments, std::size_t argument_bytes, Handle stream);
int acl_launch_v2(Handle function, std::uint32_t blocks, Data arguments, std::size_t argument_bytes,
                  Handle configuration, Handle stream);
int acl_launch_with_config(Handle function, std::uint32_t blocks, Handle stream, Handle configuration, Handle arguments,
                           Handle reserved);
int acl_launch_with_host_args(Handle function, std::uint32_t blocks, Handle stream, Handle configuration,
                              Handle arguments, std::size_t argument_bytes, Handle placeholders,
                              std::size_t placeholder_count);
// What the runtime and the frameworks call of the profiler's interface.
std::uint64_t hash_id(const char* text, std::size_t bytes);
std::int32_t register_module(std::uint32_t module, Handle handler);

// The real functions, in the order of kHooks; null until they are known.
inline constexpr std::size_t kFunctions = 12;
extern void* next_functions[kFunctions];

// When the launch that the calling thread is in began; 0 outside of one, and in one that is not recorded.
std::uint64_t launch_began_ns() noexcept;

// The runtime has reported which kernel the launch that the calling thread is in was of.
void note_launched_kernel(std::uint64_t kernel_name, std::int8_t device) noexcept;

// The device goes: what it logged is read, and the log closed. The next launch opens it again.
void finish() noexcept;

inline const Hook kHooks[kFunctions] = {
    {nullptr, "rtKernelLaunch", reinterpret_cast<void*>(&launch_stub), &next_functions[0], "kernel_launch", false},
    {nullptr, "rtKernelLaunchWithHandleV2", reinterpret_cast<void*>(&launch_with_handle), &next_functions[1],
     "kernel_launch", false},
    {nullptr, "rtKernelLaunchWithFlagV2", reinterpret_cast<void*>(&launch_with_flag), &next_functions[2],
     "kernel_launch", false},
    {nullptr, "rtAicpuKernelLaunchExWithArgs", reinterpret_cast<void*>(&launch_on_ai_cpu), &next_functions[3],
     "kernel_launch", false},
    {nullptr, "rtLaunchKernelByFuncHandle", reinterpret_cast<void*>(&launch_function), &next_functions[4],
     "kernel_launch", false},
    {nullptr, "rtLaunchKernelByFuncHandleV2", reinterpret_cast<void*>(&launch_function_v2), &next_functions[5],
     "kernel_launch", false},
    {nullptr, "aclrtLaunchKernelImpl", reinterpret_cast<void*>(&acl_launch), &next_functions[6], "kernel_launch",
     false},
    {nullptr, "aclrtLaunchKernelV2Impl", reinterpret_cast<void*>(&acl_launch_v2), &next_functions[7], "kernel_launch",
     false},
    {nullptr, "aclrtLaunchKernelWithConfig", reinterpret_cast<void*>(&acl_launch_with_config), &next_functions[8],
     "kernel_launch", false},
    {nullptr, "aclrtLaunchKernelWithHostArgs", reinterpret_cast<void*>(&acl_launch_with_host_args), &next_functions[9],
     "kernel_launch", false},
    {nullptr, "MsprofGetHashId", reinterpret_cast<void*>(&hash_id), &next_functions[10], "kernel_launch", false},
    {nullptr, "MsprofRegisterCallback", reinterpret_cast<void*>(&register_module), &next_functions[11], "kernel_launch",
     false},
};

}  // namespace msmemscope::kernel_launch
