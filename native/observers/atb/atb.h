// Observer atb: operators and kernels of Ascend Transformer Boost, and the tensors that they touch.
//
// ATB has no interface for tools, but it has a place for them: before and after each kernel it asks atb::Probe whether
// tensors are to be saved, and hands the launch parameters to atb::StoreUtil. While kernels are collected the questions
// are answered with yes, and what would copy tensors to disk records them instead. atb::Runner::Execute is one
// operator. All of them are exported C++ functions that libatb.so calls through its table, under names that depend on
// the layout of std::string it was compiled with. The original is always called where the answer is not ours.
#pragma once

#include <cstdint>

#include "interpose/patcher.h"

namespace msmemscope::atb {

std::int32_t hooked_execute(void* runner, void* variant_pack);
void hooked_save_launch_param_shared(void* stream, const void* launch_param, const void* folder);
void hooked_save_launch_param_cxx11(void* stream, const void* launch_param, const void* folder);
bool hooked_is_tensor_need_save_shared(const void* ids, const void* operation);
bool hooked_is_tensor_need_save_cxx11(const void* ids, const void* operation);
bool hooked_is_save_tensor_after();
bool hooked_is_save_tensor_before();
bool hooked_is_execute_count_in_range(std::uint64_t count);
bool hooked_is_save_tensor_desc();
bool hooked_is_save_tensor(const void* runner);

// The real functions, null until a slot that held one was met.
struct Originals {
    std::int32_t (*execute)(void*, void*);
    void (*save_launch_param_shared)(void*, const void*, const void*);
    void (*save_launch_param_cxx11)(void*, const void*, const void*);
    bool (*is_tensor_need_save_shared)(const void*, const void*);
    bool (*is_tensor_need_save_cxx11)(const void*, const void*);
    bool (*is_save_tensor_after)();
    bool (*is_save_tensor_before)();
    bool (*is_execute_count_in_range)(std::uint64_t);
    bool (*is_save_tensor_desc)();
    bool (*is_save_tensor)(const void*);
};
extern Originals originals;

// Functions of libatb.so. Those with a string in their signature have two names.
inline constexpr const char* kExecute = "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE";
inline constexpr const char* kSaveLaunchParamShared = "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs";
inline constexpr const char* kSaveLaunchParamCxx11 =
    "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
inline constexpr const char* kIsTensorNeedSaveShared = "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKSs";
inline constexpr const char* kIsTensorNeedSaveCxx11 =
    "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
inline constexpr const char* kIsSaveTensorAfter = "_ZN3atb5Probe17IsSaveTensorAfterEv";
inline constexpr const char* kIsSaveTensorBefore = "_ZN3atb5Probe18IsSaveTensorBeforeEv";
inline constexpr const char* kIsExecuteCountInRange = "_ZN3atb5Probe21IsExecuteCountInRangeEm";
inline constexpr const char* kIsSaveTensorDesc = "_ZN3atb5Probe16IsSaveTensorDescEv";
inline constexpr const char* kIsSaveTensor = "_ZNK3atb6Runner12IsSaveTensorEv";

inline const Hook kHooks[] = {
    {nullptr, kExecute, reinterpret_cast<void*>(&hooked_execute), reinterpret_cast<void**>(&originals.execute), "atb",
     false},
    {nullptr, kSaveLaunchParamShared, reinterpret_cast<void*>(&hooked_save_launch_param_shared),
     reinterpret_cast<void**>(&originals.save_launch_param_shared), "atb", false},
    {nullptr, kSaveLaunchParamCxx11, reinterpret_cast<void*>(&hooked_save_launch_param_cxx11),
     reinterpret_cast<void**>(&originals.save_launch_param_cxx11), "atb", false},
    {nullptr, kIsTensorNeedSaveShared, reinterpret_cast<void*>(&hooked_is_tensor_need_save_shared),
     reinterpret_cast<void**>(&originals.is_tensor_need_save_shared), "atb", false},
    {nullptr, kIsTensorNeedSaveCxx11, reinterpret_cast<void*>(&hooked_is_tensor_need_save_cxx11),
     reinterpret_cast<void**>(&originals.is_tensor_need_save_cxx11), "atb", false},
    {nullptr, kIsSaveTensorAfter, reinterpret_cast<void*>(&hooked_is_save_tensor_after),
     reinterpret_cast<void**>(&originals.is_save_tensor_after), "atb", false},
    {nullptr, kIsSaveTensorBefore, reinterpret_cast<void*>(&hooked_is_save_tensor_before),
     reinterpret_cast<void**>(&originals.is_save_tensor_before), "atb", false},
    {nullptr, kIsExecuteCountInRange, reinterpret_cast<void*>(&hooked_is_execute_count_in_range),
     reinterpret_cast<void**>(&originals.is_execute_count_in_range), "atb", false},
    {nullptr, kIsSaveTensorDesc, reinterpret_cast<void*>(&hooked_is_save_tensor_desc),
     reinterpret_cast<void**>(&originals.is_save_tensor_desc), "atb", false},
    {nullptr, kIsSaveTensor, reinterpret_cast<void*>(&hooked_is_save_tensor),
     reinterpret_cast<void**>(&originals.is_save_tensor), "atb", false},
};

}  // namespace msmemscope::atb
