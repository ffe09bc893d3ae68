#include "dispatch_stack.h"

#include <cstdint>
#include <utility>

#include "loaded_library.h"

namespace msmemscope {
namespace {

// Static functions of torch that answer for the calling thread. Without arguments, and numbers as results: nothing
// about calling them depends on how torch was compiled.
using CountModes = std::int64_t (*)();
// Returns a reference to a std::shared_ptr of what holds the mode.
using ModeAt = const std::shared_ptr<HeldMode>* (*)(std::int64_t);
using TakeMode = std::shared_ptr<HeldMode> (*)();
using PutMode = void (*)(std::shared_ptr<HeldMode>);
using GraphTask = int (*)();
using GradientsAreOn = bool (*)();

CountModes ask_count = nullptr;
ModeAt ask_mode = nullptr;
TakeMode take_mode = nullptr;
PutMode put_mode = nullptr;
GraphTask ask_graph_task = nullptr;
GradientsAreOn ask_gradients = nullptr;
PyTypeObject* our_type = nullptr;  // of modes; once it is set it stays

template <typename Function>
Function of_c10(const char* name) {
    return reinterpret_cast<Function>(find_in_library("libc10.so", name));
}

}  // namespace

bool find_mode_functions() {
    ask_count = of_c10<CountModes>("_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv");
    ask_mode = of_c10<ModeAt>("_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl");
    take_mode = of_c10<TakeMode>("_ZN3c104impl20TorchDispatchModeTLS9pop_stackEv");
    put_mode = of_c10<PutMode>(
        "_ZN3c104impl20TorchDispatchModeTLS30push_non_infra_mode_onto_stackESt10shared_ptrINS_13SafePyObjectTINS0_"
        "20TorchDispatchModeKeyEEEE");
    return ask_count != nullptr && ask_mode != nullptr && take_mode != nullptr && put_mode != nullptr;
}

bool learn_thread_state(const ToldState& told) {
    find_mode_functions();
    ask_gradients = of_c10<GradientsAreOn>("_ZN3c108GradMode10is_enabledEv");
    ask_graph_task = reinterpret_cast<GraphTask>(
        find_in_library("libtorch_cpu.so", "_ZN5torch8autograd25get_current_graph_task_idEv"));
    return ask_count != nullptr && ask_gradients != nullptr && ask_graph_task != nullptr && ask_count() == told.depth &&
           ask_graph_task() == told.graph_task && ask_gradients() == told.gradients_are_on;
}

bool learn_our_mode(PyObject* mode, std::int64_t depth) {
    if (our_type == nullptr) {
        find_mode_functions();
        if (ask_count == nullptr || ask_mode == nullptr || depth < 1 || ask_count() != depth ||
            mode_at(depth - 1)->mode != mode) {
            return false;
        }
        our_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(mode))));
    }
    return Py_TYPE(mode) == our_type;
}

bool our_mode_is_known() { return our_type != nullptr && take_mode != nullptr && put_mode != nullptr; }

std::int64_t count_modes() { return ask_count == nullptr ? -1 : ask_count(); }

HeldMode* mode_at(std::int64_t place) { return ask_mode(place)->get(); }

bool ours_is_alone() { return ask_count() == 1 && Py_TYPE(mode_at(0)->mode) == our_type; }

recorder::Pass pass_of_thread() {
    if (ask_graph_task() < 0) {
        return recorder::Pass::kForward;
    }
    // A backward pass makes its gradients with gradients off; what a checkpoint runs again is a forward pass.
    return ask_gradients() ? recorder::Pass::kRecomputation : recorder::Pass::kBackward;
}

WithoutMode::WithoutMode() : mode_(take_mode()) {}
WithoutMode::~WithoutMode() { put_mode(std::move(mode_)); }

}  // namespace msmemscope
