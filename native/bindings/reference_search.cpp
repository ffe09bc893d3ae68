#include "reference_search.h"

#include <frameobject.h>  // PyFrame_Check, before Python 3.11
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "python_frames.h"

namespace msmemscope {
namespace {

constexpr std::size_t kObjectsPerLookAtTheClock = 512;
constexpr std::size_t kNowhere = SIZE_MAX;
constexpr std::size_t kLongestPath = 256;

// Of the processor: on a busy machine a search is no shorter than on an idle one.
std::int64_t thread_time_ns() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

// Objects that were met, each with the place of the one it was met from. A hash table with open addressing: a process
// with torch has half a million objects, and a node per object would take more time than following the references.
class Met {
public:
    Met() : slots_(1U << 16U, 0) {}

    std::size_t size() const { return objects_.size(); }
    PyObject* object(std::size_t place) const { return objects_[place]; }
    std::size_t parent(std::size_t place) const { return parents_[place]; }

    // The place of an object, kNowhere if it was not met.
    std::size_t find(PyObject* object) const {
        for (std::size_t slot = hash(object);; slot = (slot + 1) & (slots_.size() - 1)) {
            if (slots_[slot] == 0) {
                return kNowhere;
            }
            if (objects_[slots_[slot] - 1] == object) {
                return slots_[slot] - 1;
            }
        }
    }

    // False if it was met before.
    bool add(PyObject* object, std::size_t parent) {
        if ((objects_.size() + 1) * 2 > slots_.size()) {
            grow();
        }
        std::size_t slot = hash(object);
        while (slots_[slot] != 0) {
            if (objects_[slots_[slot] - 1] == object) {
                return false;
            }
            slot = (slot + 1) & (slots_.size() - 1);
        }
        objects_.push_back(object);
        parents_.push_back(static_cast<std::uint32_t>(parent == kNowhere ? UINT32_MAX : parent));
        slots_[slot] = static_cast<std::uint32_t>(objects_.size());
        return true;
    }

    bool is_root(std::size_t place) const { return parents_[place] == UINT32_MAX; }

private:
    std::size_t hash(PyObject* object) const {
        const auto bits = reinterpret_cast<std::uintptr_t>(object) >> 4U;
        return (bits * 0x9E3779B97F4A7C15ULL >> 20U) & (slots_.size() - 1);
    }

    void grow() {
        std::vector<std::uint32_t>(slots_.size() * 2, 0).swap(slots_);
        for (std::size_t place = 0; place < objects_.size(); ++place) {
            std::size_t slot = hash(objects_[place]);
            while (slots_[slot] != 0) {
                slot = (slot + 1) & (slots_.size() - 1);
            }
            slots_[slot] = static_cast<std::uint32_t>(place + 1);
        }
    }

    std::vector<PyObject*> objects_;
    std::vector<std::uint32_t> parents_;
    std::vector<std::uint32_t> slots_;
};

struct Search {
    PyTypeObject* tensor_type;
    PyObject* storage_address;
    PyObject* addresses;
    PyObject* objects;
    std::size_t most_paths;
    std::int64_t deadline_ns;

    Met met;
    std::size_t at = 0;  // the place whose references are being read
    std::vector<std::size_t> tensors;
    // Of each tensor that was looked for: its place, and those from which it was met.
    struct Found {
        std::size_t tensor;
        std::size_t from;
    };
    std::vector<Found> found;
    std::vector<PyObject*> ignored;

    bool is_ignored(PyObject* object) const {
        for (PyObject* one : ignored) {
            if (one == object) {
                return true;
            }
        }
        return false;
    }

    bool is_wanted(PyObject* tensor) const {
        PyObject* identity = PyLong_FromVoidPtr(tensor);
        const bool is_object = identity != nullptr && PySet_Contains(objects, identity) == 1;
        Py_XDECREF(identity);
        if (is_object || PyDict_GET_SIZE(addresses) == 0) {
            PyErr_Clear();
            return is_object;
        }
        PyObject* address = PyObject_CallOneArg(storage_address, tensor);
        const bool is_there = address != nullptr && PyDict_Contains(addresses, address) == 1;
        Py_XDECREF(address);
        PyErr_Clear();
        return is_there;
    }

    void meet(PyObject* object, std::size_t from) {
        // Tensors are followed by the garbage collector, as everything is that can hold one.
        if (object == nullptr || PyObject_IS_GC(object) == 0) {
            return;
        }
        if (met.add(object, from)) {
            if (PyObject_TypeCheck(object, tensor_type) != 0) {
                tensors.push_back(met.size() - 1);
            }
        } else if (most_paths > 1 && again.size() < kMostAgain && PyObject_TypeCheck(object, tensor_type) != 0) {
            again.push_back(Found{met.find(object), from});
        }
    }

    static constexpr std::size_t kMostAgain = 1U << 16U;
    std::vector<Found> again;  // a tensor met once more

    bool is_late() const { return thread_time_ns() > deadline_ns; }

    // Follows everything that was met and not followed yet. False when the time ran out.
    bool follow() {
        for (; at < met.size(); ++at) {
            if (at % kObjectsPerLookAtTheClock == 0 && is_late()) {
                return false;
            }
            if (is_ignored(met.object(at))) {
                continue;
            }
            read(met.object(at), at);
        }
        return true;
    }

    void read(PyObject* object, std::size_t place);
};

int meet_referred(PyObject* object, void* search) {
    auto* self = static_cast<Search*>(search);
    self->meet(object, self->at);
    return 0;
}

void meet_local(void* search, PyObject* /*name*/, PyObject* value) { meet_referred(value, search); }

void Search::read(PyObject* object, std::size_t place) {
    at = place;
    if (PyFrame_Check(object)) {
        visit_frame_locals(reinterpret_cast<PyFrameObject*>(object), &meet_local, this);
    }
    // What is not tracked holds nothing that is, or is being made.
    if (Py_TYPE(object)->tp_traverse != nullptr && PyObject_IS_GC(object) != 0 && PyObject_GC_IsTracked(object) != 0) {
        Py_TYPE(object)->tp_traverse(object, &meet_referred, this);
    }
}

// From the root to the tensor.
PyObject* path_to(const Search& search, std::size_t tensor, std::size_t from) {
    std::vector<PyObject*> backwards{search.met.object(tensor)};
    while (from != kNowhere && backwards.size() < kLongestPath) {
        backwards.push_back(search.met.object(from));
        from = search.met.is_root(from) ? kNowhere : search.met.parent(from);
    }
    PyObject* path = PyList_New(0);
    for (auto object = backwards.rbegin(); path != nullptr && object != backwards.rend(); ++object) {
        if (PyList_Append(path, *object) != 0) {
            Py_CLEAR(path);
        }
    }
    return path;
}

bool append_path(const Search& search, PyObject* paths, std::size_t tensor, std::size_t from) {
    PyObject* path = path_to(search, tensor, from);
    const bool is_done = path != nullptr && PyList_Append(paths, path) == 0;
    Py_XDECREF(path);
    return is_done;
}

// Paths to all tensors that are looked for and have none yet.
bool append_paths(Search& search, PyObject* paths, std::size_t first_tensor) {
    for (std::size_t number = first_tensor; number < search.tensors.size(); ++number) {
        const std::size_t tensor = search.tensors[number];
        if (number % kObjectsPerLookAtTheClock == 0 && search.is_late()) {
            return true;
        }
        if (!search.is_wanted(search.met.object(tensor))) {
            continue;
        }
        const std::size_t from = search.met.is_root(tensor) ? kNowhere : search.met.parent(tensor);
        if (!append_path(search, paths, tensor, from)) {
            return false;
        }
        std::size_t count = 1;
        for (const Search::Found& other : search.again) {
            if (other.tensor == tensor && count < search.most_paths) {
                ++count;
                if (!append_path(search, paths, tensor, other.from)) {
                    return false;
                }
            }
        }
    }
    return true;
}

PyObject* tensors_met(const Search& search) {
    PyObject* list = PyList_New(0);
    for (const std::size_t tensor : search.tensors) {
        if (list == nullptr || PyList_Append(list, search.met.object(tensor)) != 0) {
            Py_XDECREF(list);
            return nullptr;
        }
    }
    return list;
}

PyObject* run(Search& search, PyObject* roots, PyObject* rest) {
    bool is_complete = true;
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(roots); ++place) {
        search.meet(PyList_GET_ITEM(roots, place), kNowhere);
    }
    is_complete = search.follow();
    PyObject* paths = PyList_New(0);
    if (paths == nullptr || !append_paths(search, paths, 0)) {
        Py_XDECREF(paths);
        return nullptr;
    }
    const std::size_t reached = search.tensors.size();
    for (Py_ssize_t place = 0; is_complete && place < PyList_GET_SIZE(rest); ++place) {
        PyObject* object = PyList_GET_ITEM(rest, place);
        if (PyObject_TypeCheck(object, search.tensor_type) != 0 || search.met.find(object) != kNowhere) {
            continue;
        }
        search.meet(object, kNowhere);
        is_complete = search.follow();
    }
    // Those that only C code refers to.
    for (Py_ssize_t place = 0; is_complete && place < PyList_GET_SIZE(rest); ++place) {
        search.meet(PyList_GET_ITEM(rest, place), kNowhere);
    }
    if (!append_paths(search, paths, reached)) {
        Py_DECREF(paths);
        return nullptr;
    }
    PyObject* tensors = tensors_met(search);
    if (tensors == nullptr) {
        Py_DECREF(paths);
        return nullptr;
    }
    return Py_BuildValue("(NNnO)", paths, tensors, static_cast<Py_ssize_t>(search.met.size()),
                         is_complete ? Py_True : Py_False);
}

void append_local(void* list, PyObject* name, PyObject* value) {
    PyObject* pair = PyTuple_Pack(2, name, value);
    if (pair == nullptr || PyList_Append(static_cast<PyObject*>(list), pair) != 0) {
        PyErr_Clear();
    }
    Py_XDECREF(pair);
}

}  // namespace

PyObject* find_references(PyObject* /*self*/, PyObject* arguments) {
    PyObject* roots = nullptr;
    PyObject* type = nullptr;
    PyObject* rest = nullptr;
    long long limit_ns = 0;
    Py_ssize_t most_paths = 0;
    Search search{};
    if (PyArg_ParseTuple(arguments, "O!O!OO!O!O!Ln:find_references", &PyList_Type, &roots, &PyType_Type, &type,
                         &search.storage_address, &PyDict_Type, &search.addresses, &PySet_Type, &search.objects,
                         &PyList_Type, &rest, &limit_ns, &most_paths) == 0) {
        return nullptr;
    }
    search.tensor_type = reinterpret_cast<PyTypeObject*>(type);
    search.most_paths = static_cast<std::size_t>(most_paths < 1 ? 1 : most_paths);
    search.deadline_ns = thread_time_ns() + limit_ns;
    search.ignored = {roots, rest, search.addresses, search.objects, arguments};
    // Objects that were met are not referenced: nothing may be freed until the paths are made.
    const int was_enabled = PyGC_Disable();
    PyObject* result = run(search, roots, rest);
    if (was_enabled != 0) {
        PyGC_Enable();
    }
    return result;
}

PyObject* frame_locals(PyObject* /*self*/, PyObject* frame) {
    if (!PyFrame_Check(frame)) {
        PyErr_SetString(PyExc_TypeError, "not a frame");
        return nullptr;
    }
    PyObject* list = PyList_New(0);
    if (list != nullptr) {
        visit_frame_locals(reinterpret_cast<PyFrameObject*>(frame), &append_local, list);
    }
    return list;
}

PyMethodDef kReferenceMethods[] = {
    {"find_references", find_references, METH_VARARGS, "Paths of references to tensors; see reference_search.h."},
    {"frame_locals", frame_locals, METH_O, "Names and values of a frame's local variables."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
