#include "observers/atb/atb.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "interpose/real_function.h"
#include "observers/atb/events.h"
#include "observers/atb/strings.h"
#include "observers/atb/watching.h"
#include "watch/watch.h"
#include "writer/keep_errno.h"
#include "writer/recorder.h"

namespace msmemscope::atb {

Originals originals;

namespace {

constexpr const char* kLibrary = "libatb.so";

// ATB's status for a failure of its own.
constexpr std::int32_t kErrorInternal = 3;

// What this thread said to ATB. said_yes: that it shall save a kernel's tensors, which must not be taken at its word.
// asks_whether_to_save: the original IsSaveTensor is running, and asks in its turn.
struct Answers {
    bool said_yes;
    bool asks_whether_to_save;
};
__attribute__((tls_model("initial-exec"))) __thread Answers answers;

// A function of the library that has `place`, or of those it is linked to: a library that was loaded into a scope of
// its own is not found by name alone.
void* find_near(const void* place, const char* name) noexcept {
    Dl_info info{};
    if (dladdr(place, &info) == 0 || info.dli_fname == nullptr) {
        return nullptr;
    }
    void* const handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    return handle != nullptr ? dlsym(handle, name) : nullptr;
}

void* find_function(const char* name, const void* caller) noexcept {
    void* const found = find_real_function(kLibrary, name);
    return found != nullptr ? found : find_near(caller, name);
}

template <typename Function>
Function* original(Function*& known, const char* name, const void* caller) noexcept {
    Function* function = real_function(known, kLibrary, name);
    if (__builtin_expect(function == nullptr, 0)) {
        const KeepErrno keep_errno;
        function = reinterpret_cast<Function*>(find_near(caller, name));
        __atomic_store_n(&known, function, __ATOMIC_RELEASE);
    }
    return function;
}

using TextFunction = ReturnedString (*)(const void* runner);
using TensorsFunction = const void* (*)(const void* launch_param);

struct AtbFunctions {
    StringLayout layout;
    TextFunction operation_name;
    TextFunction folder;
    TensorsFunction input_tensors;
    TensorsFunction output_tensors;
};

AtbFunctions find_atb_functions(const void* caller) noexcept {
    AtbFunctions atb{};
    const auto text = [caller](const char* name) {
        return reinterpret_cast<TextFunction>(find_function(name, caller));
    };
    atb.layout = StringLayout::kCxx11;
    atb.operation_name = text("_ZNK3atb6Runner16GetOperationNameB5cxx11Ev");
    atb.folder = text("_ZNK3atb6Runner16GetSaveTensorDirB5cxx11Ev");
    if (atb.operation_name == nullptr) {
        atb.layout = StringLayout::kShared;
        atb.operation_name = text("_ZNK3atb6Runner16GetOperationNameEv");
        atb.folder = text("_ZNK3atb6Runner16GetSaveTensorDirEv");
    }
    const auto tensors = [caller](const char* name) {
        return reinterpret_cast<TensorsFunction>(find_function(name, caller));
    };
    atb.input_tensors = tensors("_ZN3Mki11LaunchParam12GetInTensorsEv");
    atb.output_tensors = tensors("_ZN3Mki11LaunchParam13GetOutTensorsEv");
    if (atb.operation_name == nullptr || atb.folder == nullptr) {
        recorder::say("this version of ATB does not tell the names of its operators: they are recorded without");
    }
    if (atb.input_tensors == nullptr || atb.output_tensors == nullptr) {
        recorder::say("this version of ATB does not show the tensors of its kernels: they are recorded without");
    }
    return atb;
}

// Several threads may search at once; the first one's find is kept.
AtbFunctions functions(const void* caller) noexcept {
    enum State : int { kUnknown, kStoring, kStored };
    static AtbFunctions stored;
    static std::atomic<int> state{kUnknown};
    if (__builtin_expect(state.load(std::memory_order_acquire) == kStored, 1)) {
        return stored;
    }
    const KeepErrno keep_errno;
    const AtbFunctions found = find_atb_functions(caller);
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
OperatorCall begin_operator(const void* runner, const void* variant_pack, const void* caller,
                            char (&folder)[kFolderCapacity]) noexcept {
    const AtbFunctions atb = functions(caller);
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

// What is asked when an operator is set up is remembered for all its executions, also for those of a later time when
// events are collected.
bool may_collect_kernels() noexcept {
    const Settings& settings = recorder::settings();
    return (settings.events & kSelectAccess) != 0 ||
           (settings.collect_kernels && (settings.events & kSelectLaunch) != 0);
}

bool may_collect_operators() noexcept {
    const Settings& settings = recorder::settings();
    return may_collect_kernels() || (settings.collect_operators && (settings.events & kSelectLaunch) != 0);
}

void save_launch_param(StringLayout layout, void (*&known)(void*, const void*, const void*), const char* name,
                       void* stream, const void* launch_param, const void* folder, const void* caller) noexcept {
    if (!collects_kernels_or_accesses()) {
        // Collection may have ended since this thread said yes.
        const auto next = answers.said_yes ? nullptr : original(known, name, caller);
        if (next != nullptr) {
            next(stream, launch_param, folder);
        }
        return;
    }
    const KeepErrno keep_errno;
    const AtbFunctions atb = functions(caller);
    const bool shows_tensors = atb.input_tensors != nullptr && atb.output_tensors != nullptr;
    record_kernel(characters_of(folder, layout), shows_tensors ? atb.input_tensors(launch_param) : nullptr,
                  shows_tensors ? atb.output_tensors(launch_param) : nullptr);
}

template <typename... Arguments>
bool answer(bool (*&known)(Arguments...), const char* name, const void* caller, Arguments... arguments) {
    const auto next = original(known, name, caller);
    return next != nullptr && next(arguments...);
}

template <typename... Arguments>
bool answer_about_kernels(bool (*&known)(Arguments...), const char* name, const void* caller, Arguments... arguments) {
    answers.said_yes = !answers.asks_whether_to_save && collects_kernels_or_accesses();
    return answers.said_yes || answer(known, name, caller, arguments...);
}

}  // namespace

std::int32_t hooked_execute(void* runner, void* variant_pack) {
    const void* const caller = __builtin_return_address(0);
    const auto next = original(originals.execute, kExecute, caller);
    if (next == nullptr) {
        static bool said = false;
        if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED)) {
            recorder::say("the original of atb::Runner::Execute cannot be found: ATB's operators fail");
        }
        return kErrorInternal;
    }
    if (!collects_operators() && !collects_accesses() && !watch::is_active()) {
        return next(runner, variant_pack);
    }
    OperatorCall call{};
    char folder[kFolderCapacity];
    {
        const KeepErrno keep_errno;
        call = begin_operator(runner, variant_pack, caller, folder);
    }
    // No object with a destructor is alive here: ATB may throw.
    const std::int32_t status = next(runner, variant_pack);
    if (call.written) {
        const KeepErrno keep_errno;
        record_operator_end(call, variant_pack);
    }
    if (__builtin_expect(call.watched, 0)) {
        watch_operator_ends(Characters{folder, std::strlen(folder)}, variant_pack, device_of_operator());
    }
    return status;
}

void hooked_save_launch_param_shared(void* stream, const void* launch_param, const void* folder) {
    save_launch_param(StringLayout::kShared, originals.save_launch_param_shared, kSaveLaunchParamShared, stream,
                      launch_param, folder, __builtin_return_address(0));
}

void hooked_save_launch_param_cxx11(void* stream, const void* launch_param, const void* folder) {
    save_launch_param(StringLayout::kCxx11, originals.save_launch_param_cxx11, kSaveLaunchParamCxx11, stream,
                      launch_param, folder, __builtin_return_address(0));
}

bool hooked_is_tensor_need_save_shared(const void* ids, const void* operation) {
    return may_collect_kernels() || answer(originals.is_tensor_need_save_shared, kIsTensorNeedSaveShared,
                                           __builtin_return_address(0), ids, operation);
}

bool hooked_is_tensor_need_save_cxx11(const void* ids, const void* operation) {
    return may_collect_kernels() || answer(originals.is_tensor_need_save_cxx11, kIsTensorNeedSaveCxx11,
                                           __builtin_return_address(0), ids, operation);
}

bool hooked_is_save_tensor_desc() {
    return may_collect_operators() ||
           answer(originals.is_save_tensor_desc, kIsSaveTensorDesc, __builtin_return_address(0));
}

bool hooked_is_save_tensor_after() {
    return answer_about_kernels(originals.is_save_tensor_after, kIsSaveTensorAfter, __builtin_return_address(0));
}

bool hooked_is_save_tensor_before() {
    return answer_about_kernels(originals.is_save_tensor_before, kIsSaveTensorBefore, __builtin_return_address(0));
}

bool hooked_is_execute_count_in_range(std::uint64_t count) {
    return answer_about_kernels(originals.is_execute_count_in_range, kIsExecuteCountInRange,
                                __builtin_return_address(0), count);
}

bool hooked_is_save_tensor(const void* runner) {
    if (collects_kernels_or_accesses()) {
        return false;
    }
    answers.asks_whether_to_save = true;
    const bool result = answer(originals.is_save_tensor, kIsSaveTensor, __builtin_return_address(0), runner);
    answers.asks_whether_to_save = false;
    return result;
}

}  // namespace msmemscope::atb
