#include "sources/ascend/atb/atb.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/writer/keep_errno.h"
#include "core/writer/recorder.h"
#include "interpose/patcher.h"
#include "sources/ascend/atb/events.h"
#include "sources/ascend/atb/strings.h"
#include "sources/ascend/atb/watching.h"
#include "watch/watch.h"

namespace msmemscope::atb {

namespace {

// The answers of this thread to ATB. If it has agreed, ATB was told to save a kernel's tensors, and must not really do
// it. While it asks_whether_to_save, the original IsSaveTensor is running and asks in its turn.
struct Answers {
    bool agreed;
    bool asks_whether_to_save;
};
__attribute__((tls_model("initial-exec"))) __thread Answers answers;

using TextFunction = ReturnedString (*)(const void* runner);
using TensorsFunction = const void* (*)(const void* launch_param);

struct AtbFunctions {
    StringLayout layout;
    TextFunction operation_name;
    TextFunction folder;
    TensorsFunction input_tensors;
    TensorsFunction output_tensors;
};

AtbFunctions find_atb_functions() noexcept {
    AtbFunctions atb{};
    const auto text = [](const char* name) { return reinterpret_cast<TextFunction>(find_function(name)); };
    atb.layout = StringLayout::kCxx11;
    atb.operation_name = text("_ZNK3atb6Runner16GetOperationNameB5cxx11Ev");
    atb.folder = text("_ZNK3atb6Runner16GetSaveTensorDirB5cxx11Ev");
    if (atb.operation_name == nullptr) {
        atb.layout = StringLayout::kShared;
        atb.operation_name = text("_ZNK3atb6Runner16GetOperationNameEv");
        atb.folder = text("_ZNK3atb6Runner16GetSaveTensorDirEv");
    }
    const auto tensors = [](const char* name) { return reinterpret_cast<TensorsFunction>(find_function(name)); };
    atb.input_tensors = tensors("_ZN3Mki11LaunchParam12GetInTensorsEv");
    atb.output_tensors = tensors("_ZN3Mki11LaunchParam13GetOutTensorsEv");
    if (atb.operation_name == nullptr || atb.folder == nullptr) {
        recorder::warn("this version of ATB does not report the names of its operators: they are recorded without");
    }
    if (atb.input_tensors == nullptr || atb.output_tensors == nullptr) {
        recorder::warn("this version of ATB does not show the tensors of its kernels: they are recorded without");
    }
    return atb;
}

// Several threads may search at once; the first one's find is kept.
AtbFunctions functions() noexcept {
    enum State : int { kUnknown, kStoring, kStored };
    static AtbFunctions stored;
    static std::atomic<int> state{kUnknown};
    if (__builtin_expect(state.load(std::memory_order_acquire) == kStored, 1)) {
        return stored;
    }
    const KeepErrno keep_errno;
    const AtbFunctions found = find_atb_functions();
    int expected = kUnknown;
    if (state.compare_exchange_strong(expected, kStoring, std::memory_order_relaxed)) {
        stored = found;
        state.store(kStored, std::memory_order_release);
    }
    return found;
}

constexpr std::size_t kNameCapacity = 255;
constexpr std::size_t kFolderCapacity = 512;

// A place for the folder, which the end is told too.
OperatorCall begin_operator(const void* runner, const void* variant_pack, char (&folder)[kFolderCapacity]) noexcept {
    const AtbFunctions atb = functions();
    char name[kNameCapacity] = "";
    folder[0] = '\0';
    std::size_t folder_bytes = 0;
    if (atb.operation_name != nullptr && atb.folder != nullptr) {
        ReturnedString name_text = atb.operation_name(runner);
        copy_text(name_text.characters(atb.layout), name, sizeof(name));
        name_text.give_back(atb.layout);
        ReturnedString folder_text = atb.folder(runner);
        folder_bytes = copy_text(folder_text.characters(atb.layout), folder, sizeof(folder));
        folder_text.give_back(atb.layout);
    }
    // Looked at first: what the records take time for is not the operator's doing.
    const bool is_watched = watch::is_active() && recorder::settings().collect_operators && folder_bytes != 0;
    if (is_watched) {
        watch_operator_begins(Characters{folder, folder_bytes}, variant_pack, device_of_operator());
    }
    OperatorCall call = record_operator_start(OperatorTexts{name, Characters{folder, folder_bytes}}, variant_pack);
    call.watched = is_watched;
    return call;
}

bool collects_kernels_or_accesses() noexcept { return collects_kernels() || collects_accesses(); }

// ATB asks when an operator is set up, and remembers the answer for all of its executions. So the answer must also fit
// later executions, when events may be collected.
bool may_collect_kernels() noexcept {
    const Settings& settings = recorder::settings();
    return (settings.events & kSelectAccess) != 0 ||
           (settings.collect_kernels && (settings.events & kSelectLaunch) != 0);
}

bool may_collect_operators() noexcept {
    const Settings& settings = recorder::settings();
    return may_collect_kernels() || (settings.collect_operators && (settings.events & kSelectLaunch) != 0);
}

void save_launch_param(StringLayout layout, const Call<void(void*, const void*, const void*)>& call, void* stream,
                       const void* launch_param, const void* folder) noexcept {
    if (!collects_kernels_or_accesses()) {
        // Collection may have ended since this thread was answered with yes.
        if (!answers.agreed) {
            call.real(stream, launch_param, folder);
        }
        return;
    }
    const KeepErrno keep_errno;
    const AtbFunctions atb = functions();
    const bool shows_tensors = atb.input_tensors != nullptr && atb.output_tensors != nullptr;
    record_kernel(characters_of(folder, layout), shows_tensors ? atb.input_tensors(launch_param) : nullptr,
                  shows_tensors ? atb.output_tensors(launch_param) : nullptr);
}

template <typename... Arguments>
bool answer_about_kernels(const Call<bool(Arguments...)>& call, Arguments... arguments) {
    answers.agreed = !answers.asks_whether_to_save && collects_kernels_or_accesses();
    return answers.agreed || call.real(arguments...);
}

std::int32_t execute(const Call<std::int32_t(void*, void*)>& call, void* runner, void* variant_pack) {
    if (!collects_operators() && !collects_accesses() && !watch::is_active()) {
        return call.real(runner, variant_pack);
    }
    OperatorCall operator_call{};
    char folder[kFolderCapacity];
    {
        const KeepErrno keep_errno;
        operator_call = begin_operator(runner, variant_pack, folder);
    }
    // No object with a destructor is alive here: ATB may throw.
    const std::int32_t status = call.real(runner, variant_pack);
    if (operator_call.written) {
        const KeepErrno keep_errno;
        record_operator_end(operator_call, variant_pack);
    }
    if (__builtin_expect(operator_call.watched, 0)) {
        watch_operator_ends(Characters{folder, std::strlen(folder)}, variant_pack, device_of_operator());
    }
    return status;
}

void save_launch_param_shared(const Call<void(void*, const void*, const void*)>& call, void* stream,
                              const void* launch_param, const void* folder) {
    save_launch_param(StringLayout::kShared, call, stream, launch_param, folder);
}

void save_launch_param_cxx11(const Call<void(void*, const void*, const void*)>& call, void* stream,
                             const void* launch_param, const void* folder) {
    save_launch_param(StringLayout::kCxx11, call, stream, launch_param, folder);
}

bool is_tensor_need_save(const Call<bool(const void*, const void*)>& call, const void* ids, const void* operation) {
    return may_collect_kernels() || call.real(ids, operation);
}

bool is_save_tensor_desc(const Call<bool()>& call) { return may_collect_operators() || call.real(); }

bool is_save_tensor_after(const Call<bool()>& call) { return answer_about_kernels(call); }

bool is_save_tensor_before(const Call<bool()>& call) { return answer_about_kernels(call); }

bool is_execute_count_in_range(const Call<bool(std::uint64_t)>& call, std::uint64_t count) {
    return answer_about_kernels(call, count);
}

bool is_save_tensor(const Call<bool(const void*)>& call, const void* runner) {
    if (collects_kernels_or_accesses()) {
        return false;
    }
    answers.asks_whether_to_save = true;
    const bool result = call.real(runner);
    answers.asks_whether_to_save = false;
    return result;
}

// Functions of libatb.so. Those with a string in their signature have two names.
constexpr const char* kExecute = "_ZN3atb6Runner7ExecuteERNS_17RunnerVariantPackE";
constexpr const char* kSaveLaunchParamShared = "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKSs";
constexpr const char* kSaveLaunchParamCxx11 =
    "_ZN3atb9StoreUtil15SaveLaunchParamEPvRKN3Mki11LaunchParamERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* kIsTensorNeedSaveShared = "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKSs";
constexpr const char* kIsTensorNeedSaveCxx11 =
    "_ZN3atb5Probe16IsTensorNeedSaveERKSt6vectorIlSaIlEERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr const char* kIsSaveTensorAfter = "_ZN3atb5Probe17IsSaveTensorAfterEv";
constexpr const char* kIsSaveTensorBefore = "_ZN3atb5Probe18IsSaveTensorBeforeEv";
constexpr const char* kIsExecuteCountInRange = "_ZN3atb5Probe21IsExecuteCountInRangeEm";
constexpr const char* kIsSaveTensorDesc = "_ZN3atb5Probe16IsSaveTensorDescEv";
constexpr const char* kIsSaveTensor = "_ZNK3atb6Runner12IsSaveTensorEv";

constexpr Hook kHookList[] = {
    hook<&execute>(nullptr, kExecute, "atb"),
    hook<&save_launch_param_shared>(nullptr, kSaveLaunchParamShared, "atb"),
    hook<&save_launch_param_cxx11>(nullptr, kSaveLaunchParamCxx11, "atb"),
    hook<&is_tensor_need_save>(nullptr, kIsTensorNeedSaveShared, "atb"),
    hook<&is_tensor_need_save>(nullptr, kIsTensorNeedSaveCxx11, "atb"),
    hook<&is_save_tensor_after>(nullptr, kIsSaveTensorAfter, "atb"),
    hook<&is_save_tensor_before>(nullptr, kIsSaveTensorBefore, "atb"),
    hook<&is_execute_count_in_range>(nullptr, kIsExecuteCountInRange, "atb"),
    hook<&is_save_tensor_desc>(nullptr, kIsSaveTensorDesc, "atb"),
    hook<&is_save_tensor>(nullptr, kIsSaveTensor, "atb"),
};

}  // namespace

const HookTable kHooks = table_of(kHookList);

}  // namespace msmemscope::atb
