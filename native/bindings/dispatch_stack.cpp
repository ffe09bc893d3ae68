#include "dispatch_stack.h"

#include <algorithm>
#include <cstddef>
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
// A dispatch key is an enumeration of 16 bits.
using KeyIsExcluded = bool (*)(std::uint16_t);
using ExcludeKey = void (*)(std::uint16_t, bool);
// Constructor and destructor of at::impl::RestorePythonTLSSnapshot: meanwhile the thread has the keys that it had where
// the program called the operator.
using ChangeSnapshot = void (*)(void*);

CountModes ask_count = nullptr;
ModeAt ask_mode = nullptr;
TakeMode take_mode = nullptr;
PutMode put_mode = nullptr;
GraphTask ask_graph_task = nullptr;
GradientsAreOn ask_gradients = nullptr;
KeyIsExcluded key_is_excluded = nullptr;
ExcludeKey exclude_key = nullptr;
constexpr std::size_t kMostLazyKeys = 4;
std::uint16_t lazy_keys[kMostLazyKeys];
std::size_t lazy_key_count = 0;
constexpr std::size_t kMostKeptKeys = 8;
std::uint16_t kept_keys[kMostKeptKeys];
std::size_t kept_key_count = 0;
constexpr std::size_t kSnapshotBytes = 128;  // torch needs 32
ChangeSnapshot begin_snapshot = nullptr;
ChangeSnapshot end_snapshot = nullptr;
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
    // A backward pass makes its gradients with gradients off. If a checkpoint runs a part again, that is a forward
    // pass.
    return ask_gradients() ? recorder::Pass::kRecomputation : recorder::Pass::kBackward;
}

namespace {

// Takes the numbers of keys. SIZE_MAX with an error set where they are not numbers.
std::size_t read_keys(PyObject* sequence, std::uint16_t* keys, std::size_t most) {
    const std::size_t count = std::min(static_cast<std::size_t>(PyTuple_GET_SIZE(sequence)), most);
    for (std::size_t index = 0; index < count; ++index) {
        PyObject* const number = PyTuple_GET_ITEM(sequence, static_cast<Py_ssize_t>(index));
        keys[index] = static_cast<std::uint16_t>(PyLong_AsUnsignedLong(number));
    }
    return PyErr_Occurred() == nullptr ? count : SIZE_MAX;
}

}  // namespace

PyObject* learn_lazy_keys(PyObject*, PyObject* arguments) {
    PyObject* lazy = nullptr;
    PyObject* kept = nullptr;
    if (PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &lazy, &PyTuple_Type, &kept) == 0) {
        return nullptr;
    }
    lazy_key_count = kept_key_count = 0;
    const std::size_t lazy_count = read_keys(lazy, lazy_keys, kMostLazyKeys);
    const std::size_t kept_count = lazy_count == SIZE_MAX ? SIZE_MAX : read_keys(kept, kept_keys, kMostKeptKeys);
    if (kept_count == SIZE_MAX) {
        return nullptr;
    }
    key_is_excluded = of_c10<KeyIsExcluded>("_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE");
    exclude_key = of_c10<ExcludeKey>("_ZN3c104impl29tls_set_dispatch_key_excludedENS_11DispatchKeyEb");
    if (key_is_excluded == nullptr || exclude_key == nullptr) {
        Py_RETURN_FALSE;
    }
    lazy_key_count = lazy_count;
    const auto of_snapshot = [](const char* name) {
        return reinterpret_cast<ChangeSnapshot>(find_in_library("libtorch_cpu.so", name));
    };
    begin_snapshot = of_snapshot("_ZN2at4impl24RestorePythonTLSSnapshotC1Ev");
    end_snapshot = of_snapshot("_ZN2at4impl24RestorePythonTLSSnapshotD1Ev");
    kept_key_count = begin_snapshot != nullptr && end_snapshot != nullptr ? kept_count : 0;
    Py_RETURN_TRUE;
}

namespace {

// Which of the keys the caller of the operator has. Torch's own functions that make tensors have none of them.
std::uint32_t keys_of_caller(std::uint32_t wanted) {
    alignas(std::max_align_t) unsigned char snapshot[kSnapshotBytes];
    try {
        begin_snapshot(snapshot);
    } catch (...) {  // there is none: the operator was not called by way of the dispatcher
        return 0;
    }
    for (std::size_t index = 0; index < kept_key_count; ++index) {
        if (key_is_excluded(kept_keys[index])) {
            wanted &= ~(1U << index);
        }
    }
    end_snapshot(snapshot);
    return wanted;
}

// Returns a bit for each key that was excluded: lazy ones, and behind them kept ones.
std::uint32_t show_keys(std::uint32_t kept) {
    std::uint32_t excluded = 0;
    const auto show = [&excluded](std::uint16_t key, std::size_t bit) {
        if (key_is_excluded(key)) {
            exclude_key(key, false);
            excluded |= 1U << bit;
        }
    };
    kept &= (1U << kept_key_count) - 1;
    kept = kept == 0 ? 0 : keys_of_caller(kept);
    for (std::size_t index = 0; index < lazy_key_count; ++index) {
        show(lazy_keys[index], index);
    }
    for (std::size_t index = 0; kept >> index != 0; ++index) {
        if ((kept >> index & 1U) != 0) {
            show(kept_keys[index], kMostLazyKeys + index);
        }
    }
    return excluded;
}

void hide_keys(std::uint32_t excluded) {
    for (std::size_t bit = 0; excluded >> bit != 0; ++bit) {
        if ((excluded >> bit & 1U) != 0) {
            exclude_key(bit < kMostLazyKeys ? lazy_keys[bit] : kept_keys[bit - kMostLazyKeys], true);
        }
    }
}

}  // namespace

WithLazyKeys::WithLazyKeys(std::uint32_t kept_keys) : excluded_(show_keys(kept_keys)) {}
WithLazyKeys::~WithLazyKeys() { hide_keys(excluded_); }

PyObject* show_lazy_keys(PyObject*, PyObject* kept_keys) {
    const unsigned long kept = PyLong_AsUnsignedLong(kept_keys);
    return PyErr_Occurred() != nullptr ? nullptr : PyLong_FromUnsignedLong(show_keys(static_cast<std::uint32_t>(kept)));
}

PyObject* hide_lazy_keys(PyObject*, PyObject* excluded) {
    const unsigned long bits = PyLong_AsUnsignedLong(excluded);
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    hide_keys(static_cast<std::uint32_t>(bits));
    Py_RETURN_NONE;
}

WithoutMode::WithoutMode() : mode_(take_mode()) {}
WithoutMode::~WithoutMode() { put_mode(std::move(mode_)); }

}  // namespace msmemscope
