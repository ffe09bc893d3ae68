#include "reference_search.h"

#include <frameobject.h>  // PyFrame_Check, before Python 3.11

#include <cstddef>
#include <cstdint>
#include <vector>

#include "python_frames.h"
#include "reference_cycles.h"
#include "reference_tree.h"
#include "reference_walk.h"

namespace msmemscope {
namespace {

constexpr long long kPathsPerLimit = 4;

// All that can be reached from roots.
class Walk {
public:
    Walk(const Wanted& wanted, Deadline& deadline, std::size_t most_paths, std::vector<PyObject*> ignored)
        : wanted_(wanted),
          deadline_(deadline),
          most_paths_(most_paths),
          ignored_(std::move(ignored)),
          reader_(wanted_, met_, deadline_, &meet_referred, this) {}
    Walk(const Walk&) = delete;
    Walk& operator=(const Walk&) = delete;

    // False when the time ran out.
    bool follow(PyObject* roots) {
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(roots); ++place) {
            meet(PyList_GET_ITEM(roots, place), kNowhere);
        }
        const std::size_t root_count = met_.size();
        std::size_t next = root_count;
        for (std::size_t root = 0; root < root_count; ++root) {
            read(root);
            if (!follow_from(next)) {
                return false;
            }
            while (!late_.empty()) {
                const std::size_t place = late_.back();
                late_.pop_back();
                read(place);
                if (!follow_from(next)) {
                    return false;
                }
            }
        }
        return true;
    }

    const Met& met() const { return met_; }
    PyObject* paths(Deadline& deadline) const;
    PyObject* holders() const;
    PyObject* tree() const { return new_reference_tree(met_, holders_); }

private:
    struct Again {
        std::size_t holder;
        std::size_t from;
    };
    static constexpr std::size_t kMostAgain = 1U << 16U;

    bool follow_from(std::size_t& next) {
        for (; reader_.reaches(next); ++next) {
            met_.expect_reading(next + kReadAhead);
            if (wanted_.is_late(met_.object(next))) {
                late_.push_back(next);
            } else {
                read(next);
            }
        }
        return !deadline_.is_over();
    }

    bool is_ignored(PyObject* object) const {
        for (PyObject* one : ignored_) {
            if (one == object) {
                return true;
            }
        }
        return false;
    }

    void meet(PyObject* object, std::size_t from) {
        if (met_.add(object, from)) {
            if (wanted_.has_memory(object)) {
                holders_.push_back(met_.size() - 1);
            }
        } else if (most_paths_ > 1 && again_.size() < kMostAgain && wanted_.has_memory(object)) {
            again_.push_back(Again{met_.find(object), from});
        }
    }

    static void meet_referred(void* walk, PyObject* object, std::size_t from) {
        static_cast<Walk*>(walk)->meet(object, from);
    }

    void read(std::size_t place) {
        if (!is_ignored(met_.object(place))) {
            reader_.read(met_.object(place), place);
        }
    }

    bool append_path(PyObject* paths, std::size_t from, PyObject* last) const {
        PyObject* path = path_from_root(met_, from);
        const bool is_done =
            path != nullptr && (last == nullptr || PyList_Append(path, last) == 0) && PyList_Append(paths, path) == 0;
        Py_XDECREF(path);
        return is_done;
    }

    const Wanted& wanted_;
    Deadline& deadline_;
    std::size_t most_paths_;
    std::vector<PyObject*> ignored_;
    Met met_;
    ReferenceReader reader_;
    std::vector<std::size_t> holders_;
    std::vector<Again> again_;  // what has memory and was met once more
    std::vector<std::size_t> late_;
};

PyObject* Walk::paths(Deadline& deadline) const {
    PyObject* paths = PyList_New(0);
    for (const std::size_t holder : holders_) {
        if (paths == nullptr || deadline.is_over()) {
            return paths;
        }
        if (!wanted_.is_wanted(met_.object(holder))) {
            continue;
        }
        bool is_done = append_path(paths, holder, nullptr);
        std::size_t count = 1;
        for (const Again& other : again_) {
            if (is_done && other.holder == holder && count < most_paths_) {
                ++count;
                is_done = append_path(paths, other.from, met_.object(holder));
            }
        }
        if (!is_done) {
            Py_CLEAR(paths);
        }
    }
    return paths;
}

PyObject* Walk::holders() const {
    PyObject* list = PyList_New(0);
    for (const std::size_t holder : holders_) {
        if (list == nullptr || PyList_Append(list, met_.object(holder)) != 0) {
            Py_XDECREF(list);
            return nullptr;
        }
    }
    return list;
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
    PyObject* memory_kinds = nullptr;
    PyObject* reference_kinds = nullptr;
    PyObject* late_kinds = nullptr;
    long long limit_ns = 0;
    Py_ssize_t most_paths = 0;
    Wanted wanted;
    if (PyArg_ParseTuple(arguments, "O!O!O!O!O!Ln:find_references", &PyList_Type, &roots, &PyList_Type, &memory_kinds,
                         &PyList_Type, &reference_kinds, &PyTuple_Type, &late_kinds, &PyDict_Type, &wanted.addresses,
                         &limit_ns, &most_paths) == 0 ||
        !wanted.read_kinds(memory_kinds, reference_kinds, late_kinds)) {
        return nullptr;
    }
    const CollectorRests rests;
    Deadline deadline(limit_ns);
    Walk walk(wanted, deadline, static_cast<std::size_t>(most_paths < 1 ? 1 : most_paths),
              {roots, wanted.addresses, arguments});
    const bool is_complete = walk.follow(roots);
    // Also what an unfinished walk has met is told: the variables of the program come first.
    Deadline deadline_of_paths(limit_ns / kPathsPerLimit);
    PyObject* paths = walk.paths(deadline_of_paths);
    PyObject* holders = paths == nullptr ? nullptr : walk.holders();
    PyObject* tree = holders == nullptr ? nullptr : walk.tree();
    if (tree == nullptr) {
        Py_XDECREF(holders);
        Py_XDECREF(paths);
        return nullptr;
    }
    return Py_BuildValue("(NNNO)", paths, holders, tree, is_complete ? Py_True : Py_False);
}

PyObject* find_cycles(PyObject* /*self*/, PyObject* arguments) {
    PyObject* roots = nullptr;
    PyObject* memory_kinds = nullptr;
    PyObject* reference_kinds = nullptr;
    PyObject* late_kinds = nullptr;
    PyObject* rest = nullptr;
    long long limit_ns = 0;
    Wanted wanted;
    if (PyArg_ParseTuple(arguments, "O!O!O!O!O!O!O!L:find_cycles", &PyList_Type, &roots, &PyList_Type, &memory_kinds,
                         &PyList_Type, &reference_kinds, &PyTuple_Type, &late_kinds, &PyDict_Type, &wanted.addresses,
                         &PySet_Type, &wanted.objects, &PyList_Type, &rest, &limit_ns) == 0 ||
        !wanted.read_kinds(memory_kinds, reference_kinds, late_kinds)) {
        return nullptr;
    }
    const CollectorRests rests;
    Deadline deadline(limit_ns);
    Walk walk(wanted, deadline, 1, {roots, rest, wanted.addresses, wanted.objects, arguments});
    bool is_complete = walk.follow(roots);
    PyObject* found = PyList_New(0);
    if (found != nullptr && is_complete && !append_cycles(wanted, walk.met(), rest, deadline, found)) {
        Py_CLEAR(found);
    }
    if (found == nullptr) {
        return nullptr;
    }
    is_complete = is_complete && !deadline.is_over();
    return Py_BuildValue("(NO)", found, is_complete ? Py_True : Py_False);
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
    {"find_references", find_references, METH_VARARGS, "Paths of references to memory; see reference_search.h."},
    {"paths_to", paths_to, METH_VARARGS, "Paths of an earlier walk; see reference_tree.h."},
    {"find_cycles", find_cycles, METH_VARARGS, "Cycles of references that keep memory; see reference_search.h."},
    {"frame_locals", frame_locals, METH_O, "Names and values of a frame's local variables."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
