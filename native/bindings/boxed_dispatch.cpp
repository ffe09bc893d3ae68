#include "boxed_dispatch.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "boxed_calls.h"
#include "dispatch_stack.h"
#include "operator_collector.h"
#include "operator_dispatch.h"
#include "program_errors.h"
#include "sources/pinned_memory.h"
#include "tensor_layout.h"
#include "watch/watch.h"

namespace msmemscope {
namespace {

// An operator that was called once. Kept for ever.
struct BoxedOperator {
    std::string name;
    std::string overload;
    OperatorPlan* plan;  // null: it is left to Python
    PyObject* func;      // of one with a plan
};

// Operators by the address that stands for them in torch. The table is looked up without the GIL, and extended under
// it. Operators that have a plan stay registered. Torch may have put another operator in the place of one that is gone.
// Then the name says so.
struct Place {
    std::atomic<const void*> registered{nullptr};
    std::atomic<const BoxedOperator*> known{nullptr};
};
constexpr std::size_t kPlaces = 1U << 14U;
constexpr std::size_t kMostKnown = kPlaces / 2;
Place places[kPlaces];
std::size_t known_count = 0;

std::atomic<bool> is_on{false};
DispatchFunction own_dispatch = nullptr;

std::size_t first_place(const void* registered) {
    return (reinterpret_cast<std::uint64_t>(registered) * 0x9E3779B97F4A7C15ULL) >> 50U;
}

Place* place_of(const void* registered) {
    for (std::size_t index = first_place(registered);; index = (index + 1) & (kPlaces - 1)) {
        const void* const there = places[index].registered.load(std::memory_order_acquire);
        if (there == registered || there == nullptr) {
            return &places[index];
        }
    }
}

bool is_named(const void* registered, const BoxedOperator& known) {
    return std::strcmp(name_of_operator(registered), known.name.c_str()) == 0 &&
           std::strcmp(overload_of_operator(registered), known.overload.c_str()) == 0;
}

// Null if that is not possible now.
const BoxedOperator* learn(const void* registered) {
    if (Py_IsInitialized() == 0) {  // it has ended, and the program not yet
        return nullptr;
    }
    const PyGILState_STATE state = PyGILState_Ensure();
    auto learned = std::make_unique<BoxedOperator>(
        BoxedOperator{name_of_operator(registered), overload_of_operator(registered), nullptr, nullptr});
    {
        const HeldException exception;
        learned->plan = plan_of_named(learned->name.c_str(), learned->overload.c_str(), learned->func);
    }
    // Python has run meanwhile, and other threads with it: one of them may have been first.
    Place& place = *place_of(registered);
    const BoxedOperator* known = place.known.load(std::memory_order_relaxed);
    if (known != nullptr && !is_named(registered, *known)) {
        known = nullptr;
    }
    if (known == nullptr && known_count < kMostKnown) {
        known = learned.release();
        place.known.store(known, std::memory_order_release);
        known_count += place.registered.exchange(registered, std::memory_order_release) == nullptr ? 1 : 0;
    }
    PyGILState_Release(state);
    return known;
}

// Null if there are too many of them, or Python has ended.
const BoxedOperator* know(const void* registered) {
    const BoxedOperator* const known = place_of(registered)->known.load(std::memory_order_acquire);
    return known != nullptr && is_named(registered, *known) ? known : learn(registered);
}

// Appends accesses of a value: of a tensor, or of lists of lists of them.
Gathered gather_value(const BoxedValue& value, Use use, bool with_access, std::vector<Access>& accesses) {
    const BoxedKind kind = kind_of(value);
    if (kind == BoxedKind::kTensor) {
        return gather_at(reinterpret_cast<const void*>(value.payload), use, with_access, accesses);
    }
    if (kind != BoxedKind::kList) {
        return Gathered::kDone;
    }
    const BoxedList elements = elements_of(value);
    for (const BoxedValue* each = elements.begin; each != elements.end; ++each) {
        if (kind_of(*each) == BoxedKind::kOther) {
            break;  // a list of numbers
        }
        const Gathered gathered = gather_value(*each, use, with_access, accesses);
        if (gathered != Gathered::kDone) {
            return gathered;
        }
    }
    return Gathered::kDone;
}

// False if Python has to look at them.
bool gather_arguments(const OperatorPlan& plan, const BoxedValue* values, bool with_access,
                      std::vector<Access>& accesses) {
    for (const KeywordUse& argument : plan.keyword_inputs) {
        if (gather_value(*values++, argument.use, with_access, accesses) != Gathered::kDone) {
            return false;
        }
    }
    return true;
}

// Where the operator works: where its tensors are, else where it was told. False if only Python can tell.
bool find_device(const OperatorPlan& plan, const BoxedValue* values, const std::vector<Access>& accesses, int& device) {
    if (!accesses.empty()) {
        device = device_of(accesses);
        return true;
    }
    if (plan.device_position >= 0 && kind_of(values[plan.device_position]) == BoxedKind::kDevice) {
        const std::uint16_t code = device_code_of(values[plan.device_position]);
        return device_of_code(&code, device);
    }
    return device_of_code(nullptr, device);
}

// Results of classes of tensors that are new here: Python knows how to read them.
void gather_in_python(const BoxedValue& value, Use use, std::vector<Access>& accesses) {
    if (Py_IsInitialized() == 0) {  // it has ended, and the program not yet
        return;
    }
    const PyGILState_STATE state = PyGILState_Ensure();
    {
        const HeldException exception;
        PyObject* const result = value_in_python(value);
        if (result == nullptr) {
            end_exception();
        } else {
            gather(result, use, true, accesses);
            Py_DECREF(result);
        }
    }
    PyGILState_Release(state);
}

void gather_results(const OperatorPlan& plan, const BoxedValue* values, std::vector<Access>& accesses) {
    for (const Use use : plan.outputs) {
        const std::size_t before = accesses.size();
        if (use != Use::kNone && gather_value(*values, use, true, accesses) != Gathered::kDone) {
            accesses.resize(before);
            gather_in_python(*values, use, accesses);
        }
        ++values;
    }
}

// An operator while it runs; it ends here also where it throws.
class RunningBoxed {
public:
    RunningBoxed(const BoxedOperator& known, void* stack) : plan_(*known.plan), stack_(stack) {
        const BegunOperator called{known.func, nullptr, stack, plan_.keyword_inputs.size()};
        recorded_ = enter_operator(plan_, called, pass_of_thread());
    }
    ~RunningBoxed() {
        if (!has_ended_) {
            end(false);
        }
    }
    RunningBoxed(const RunningBoxed&) = delete;
    RunningBoxed& operator=(const RunningBoxed&) = delete;

    void begin(int device, const std::vector<Access>& accesses) {
        if (recorded_.is_recorded && device != kNotObserved) {
            record_beginning(plan_, static_cast<format::Device>(device), accesses);
        }
    }

    void end(bool has_results) {
        has_ended_ = true;
        note_pinned(has_results);
        const Recorded recorded = leave_operator();
        if (!recorded.is_recorded) {
            return;
        }
        std::vector<Access>& accesses = accesses_of_thread();
        const BoxedValue* const results = has_results ? uppermost(stack_, plan_.outputs.size()) : nullptr;
        if (recorded.accesses && results != nullptr) {
            gather_results(plan_, results, accesses);
        }
        record_end(plan_, recorded.flags, accesses);
    }

private:
    void note_pinned(bool has_results) {
        const std::uint64_t pinned = pinned_memory::take_new();
        const BoxedValue* const results =
            pinned != 0 && has_results && plan_.outputs.size() == 1 ? uppermost(stack_, 1) : nullptr;
        TensorMemory memory{};
        if (results != nullptr && kind_of(*results) == BoxedKind::kTensor &&
            read_tensor_at(reinterpret_cast<const void*>(results->payload), memory) &&
            memory.storage_address == pinned) {
            pinned_memory::note_requested(pinned, static_cast<std::uint64_t>(memory.elements) * memory.item_bytes);
        }
    }

    OperatorPlan& plan_;
    void* stack_;
    Recorded recorded_{};
    bool has_ended_ = false;
};

// False if the operator has to go to Python; nothing has happened then.
bool run(const BoxedOperator& known, const void* handle, void* stack) {
    const OperatorPlan& plan = *known.plan;
    const BoxedValue* const values = uppermost(stack, plan.keyword_inputs.size());
    if (values == nullptr || watch::is_active()) {
        return false;
    }
    const bool with_access = recorder::is_selected(kSelectAccess);
    std::vector<Access>& accesses = accesses_of_thread();
    int device = kNotObserved;
    if (!gather_arguments(plan, values, with_access, accesses) || !find_device(plan, values, accesses, device)) {
        return false;
    }
    RunningBoxed running(known, stack);
    running.begin(device, accesses);
    {
        const WithoutMode without;
        const WithLazyKeys lazy(plan.kept_keys);
        call_boxed(handle, stack);
    }
    running.end(true);
    operator_ran();
    return true;
}

void dispatch(const void*, const void* handle, void* stack) {
    if (!is_on.load(std::memory_order_acquire) || !ours_is_alone()) {
        own_dispatch(own_interpreter_functions(), handle, stack);
        return;
    }
    const BoxedOperator* const known = know(operator_of(handle));
    if (known == nullptr || known->plan == nullptr || !run(*known, handle, stack)) {
        own_dispatch(own_interpreter_functions(), handle, stack);
    }
}

}  // namespace

PyObject* dispatch_boxed(PyObject*, PyObject* on) {
    const int wanted = PyObject_IsTrue(on);
    if (wanted < 0) {
        return nullptr;
    }
    if (wanted != 0 && own_dispatch == nullptr && our_mode_is_known()) {
        own_dispatch = replace_dispatch_function(&dispatch);
    }
    is_on.store(wanted != 0 && own_dispatch != nullptr, std::memory_order_release);
    return PyBool_FromLong(wanted == 0 || own_dispatch != nullptr ? 1 : 0);
}

}  // namespace msmemscope
