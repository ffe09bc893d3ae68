// The dispatch modes of the calling thread, and torch's state about its work. Only learning needs the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

#include "core/writer/recorder.h"

namespace msmemscope {

// The beginning of torch's entry for a mode (c10/core/SafePyObject.h); there is more behind it.
struct HeldMode {
    PyObject* mode;
    void* interpreter;  // whose functions the dispatcher calls for it
};

// Whether torch can be asked which modes there are, and be told: as far as that shows before there is one.
bool find_mode_functions();

// Torch's answers about this thread in Python, to compare. False if it cannot be asked from here.
struct ToldState {
    std::int64_t depth;
    int graph_task;
    bool gradients_are_on;
};
bool learn_thread_state(const ToldState& told);

// mode: ours, on top of depth modes, as torch says in Python. False if torch cannot be asked which modes there are.
bool learn_our_mode(PyObject* mode, std::int64_t depth);
bool our_mode_is_known();

// The number of modes of this thread; -1 if torch cannot be asked.
std::int64_t count_modes();
// The mode at a place, the bottom of the stack is at 0. Only after find_mode_functions.
HeldMode* mode_at(std::int64_t place);
// Whether the only mode of this thread is ours. Only after learn_our_mode.
bool ours_is_alone();

// Which pass what runs on this thread belongs to. Only after learn_thread_state.
recorder::Pass pass_of_thread();

// METH_VARARGS: learn_lazy_keys(keys, kept_keys) -> bool, False if torch cannot be told.
// - keys: dispatch keys of things that torch does lazily, such as conjugation. Torch excludes them while it calls a
//   mode. But operators that run other operators must find them as they do without us.
// - kept_keys: dispatch keys of counting writes in place, and of gradients. Without us, some operators keep those of
//   their caller. The plan of such an operator has a bit for each.
PyObject* learn_lazy_keys(PyObject* self, PyObject* keys);
// The thread takes part in lazy keys again meanwhile. Nothing where they are not known.
class WithLazyKeys {
public:
    explicit WithLazyKeys(std::uint32_t kept_keys);
    ~WithLazyKeys();
    WithLazyKeys(const WithLazyKeys&) = delete;
    WithLazyKeys& operator=(const WithLazyKeys&) = delete;

private:
    std::uint32_t excluded_ = 0;  // a bit for each key
};
// The same for Python. METH_O: show_lazy_keys(kept keys, a bit for each) -> int; METH_O: hide_lazy_keys(what that
// returned).
PyObject* show_lazy_keys(PyObject* self, PyObject* kept_keys);
PyObject* hide_lazy_keys(PyObject* self, PyObject* excluded);

// The thread has no mode meanwhile. It has one when this begins. Only after learn_our_mode.
class WithoutMode {
public:
    WithoutMode();
    ~WithoutMode();
    WithoutMode(const WithoutMode&) = delete;
    WithoutMode& operator=(const WithoutMode&) = delete;

private:
    std::shared_ptr<HeldMode> mode_;
};

}  // namespace msmemscope
