#include "growing_containers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/observe/container_looks.h"
#include "core/writer/recorder.h"
#include "own_code.h"
#include "program_errors.h"
#include "reference_walk.h"

namespace msmemscope {
namespace {

// Shorter containers are no subject: nothing that matters has so few entries after some looks. Only what variables of
// the program keep can be a few large things, such as checkpoints.
struct Least {
    Py_ssize_t entries;
    Py_ssize_t growth;
};
constexpr Least kLeastOfProgram = {6, 4};
constexpr Least kLeast = {32, 16};
// Of the small ones the nearest to variables are followed: a program can have millions of dictionaries of a few
// entries.
constexpr std::size_t kMostSmall = 1U << 12U;
// Intervals between looks, one after the other, in which it has grown.
constexpr std::uint32_t kLeastRises = 2;
// A container with so many entries is named where a forked process copies what it shares.
constexpr Py_ssize_t kLeastOfLargest = 4096;
constexpr std::size_t kMostLargest = 4;
constexpr std::size_t kMostKnown = 1U << 15U;
// Objects that one look meets: 10 MiB of notes, in a process that may be near its limit.
constexpr std::size_t kMostMet = 1U << 19U;

struct Known {
    PyTypeObject* type;
    Py_ssize_t entries;
    Py_ssize_t first_entries;
    std::uint64_t first_sequence;
    std::uint32_t rises;
    std::uint32_t look;  // the latest that saw it
};

// By its address: a container, or a class whose objects are counted.
using Table = std::unordered_map<PyObject*, Known>;

struct Growing {
    Known known;
    std::size_t place;
};

// The results of earlier looks; used under the GIL only.
struct Looks {
    Table containers;
    Table classes;
    std::uint32_t count = 0;
};
Looks& looks() {
    static auto* const kept = new Looks;  // threads may be left when the process ends
    return *kept;
}

Py_ssize_t entries_of(PyObject* object, PyTypeObject* deque) {
    if (PyList_Check(object)) {
        return PyList_GET_SIZE(object);
    }
    if (PyDict_Check(object)) {
        return PyDict_GET_SIZE(object);
    }
    if (PyAnySet_Check(object)) {
        return PySet_GET_SIZE(object);
    }
    if (PyObject_TypeCheck(object, deque) != 0) {
        return Py_SIZE(object);
    }
    return 0;
}

// Notes what a look saw; true if it has grown from look to look.
bool rises(Table& table, PyObject* key, PyTypeObject* type, Py_ssize_t entries, std::uint64_t sequence,
           const Least& least) {
    const std::uint32_t look = looks().count;
    auto found = table.find(key);
    if (found == table.end()) {
        if (table.size() < kMostKnown) {
            table.emplace(key, Known{type, entries, entries, sequence, 0, look});
        }
        return false;
    }
    Known& known = found->second;
    const Py_ssize_t before = known.entries;
    // It shrank, or it is another one at the same place.
    if (known.type != type || entries < before) {
        known = Known{type, entries, entries, sequence, 0, look};
        return false;
    }
    known.look = look;
    known.entries = entries;
    if (entries == before) {
        return false;
    }
    ++known.rises;
    return known.rises >= kLeastRises && entries - known.first_entries >= least.growth;
}

void forget_what_is_gone(Table& table) {
    for (auto one = table.begin(); one != table.end();) {
        // A look whose time ran out may not have got as far.
        one = looks().count - one->second.look > 3 ? table.erase(one) : std::next(one);
    }
}

class Look {
public:
    Look(PyTypeObject* deque, Deadline& deadline, PyObject* roots)
        : deque_(deque),
          deadline_(deadline),
          roots_(roots),
          sequence_(recorder::next_sequence()),
          reader_(wanted_, met_, deadline_, &meet_referred, this) {}
    Look(const Look&) = delete;
    Look& operator=(const Look&) = delete;

    // What belongs to the program itself is read last: it leads to all modules, and seldom to data that grows. False
    // when the time ran out.
    bool follow(std::size_t first_roots) {
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(roots_); ++place) {
            meet(PyList_GET_ITEM(roots_, place), kNowhere);
        }
        const std::size_t root_count = met_.size();
        std::size_t next = root_count;
        std::vector<std::size_t> later;
        for (std::size_t root = 0; root < root_count; ++root) {
            read(root);
            if (root + 1 >= first_roots && !read_from(next, &later)) {
                return false;
            }
            least_ = root + 1 >= first_roots ? kLeast : kLeastOfProgram;
        }
        for (const std::size_t place : later) {
            read(place);
            if (!read_from(next, nullptr)) {
                return false;
            }
        }
        return true;
    }

    void count_classes() {
        struct Count {
            Py_ssize_t objects;
            std::size_t place;
        };
        std::unordered_map<PyTypeObject*, Count> counts;
        for (std::size_t place = 0; place < met_.size(); ++place) {
            met_.expect_reading(place + kReadAhead);
            PyTypeObject* const type = Py_TYPE(met_.object(place));
            if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) {
                ++counts.emplace(type, Count{0, place}).first->second.objects;
            }
        }
        for (const auto& [type, count] : counts) {
            auto* const key = reinterpret_cast<PyObject*>(type);
            if (count.objects >= kLeast.entries &&
                rises(looks().classes, key, type, count.objects, sequence_, kLeast)) {
                classes_.push_back(Growing{looks().classes[key], count.place});
            }
        }
    }

    // A new list; null with an exception.
    PyObject* found(std::size_t most) {
        PyObject* list = PyList_New(0);
        for (std::vector<Growing>* const kind : {&containers_, &classes_}) {
            std::sort(kind->begin(), kind->end(), [](const Growing& one, const Growing& other) {
                return one.known.entries - one.known.first_entries > other.known.entries - other.known.first_entries;
            });
            kind->resize(std::min(kind->size(), most));
            for (const Growing& one : *kind) {
                if (list != nullptr && !append(list, one)) {
                    Py_CLEAR(list);
                }
            }
        }
        return list;
    }

    // A new list of those with most entries; null with an exception.
    PyObject* largest() const {
        PyObject* list = PyList_New(0);
        for (const Large& one : largest_) {
            PyObject* const path = list == nullptr ? nullptr : path_from_root(met_, one.place);
            PyObject* const pair = path == nullptr ? nullptr : Py_BuildValue("(Nn)", path, one.entries);
            if (pair == nullptr || PyList_Append(list, pair) != 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(pair);
        }
        return list;
    }

private:
    struct Large {
        Py_ssize_t entries;
        std::size_t place;
    };

    // Reads what was met from a place on, but what goes to `later`. False when the time ran out.
    bool read_from(std::size_t& next, std::vector<std::size_t>* later) {
        for (; reader_.reaches(next); ++next) {
            met_.expect_reading(next + kReadAhead);
            if (later != nullptr && is_of_program(met_.object(next))) {
                later->push_back(next);
            } else {
                read(next);
            }
        }
        return !deadline_.is_over();
    }

    // A closure has data.
    static bool is_of_program(PyObject* object) {
        return PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object) || PyCode_Check(object) ||
               (PyFunction_Check(object) && PyFunction_GET_CLOSURE(object) == nullptr);
    }

    void note_large(Py_ssize_t entries) {
        const auto is_larger = [](const Large& one, const Large& other) { return one.entries > other.entries; };
        const Large found{entries, met_.size() - 1};
        largest_.insert(std::upper_bound(largest_.begin(), largest_.end(), found, is_larger), found);
        largest_.resize(std::min(largest_.size(), kMostLargest));
    }

    void meet(PyObject* object, std::size_t from) {
        if (!met_.add(object, from)) {
            return;
        }
        if (met_.size() >= kMostMet) {
            deadline_.end();
        }
        const Py_ssize_t entries = object == roots_ ? 0 : entries_of(object, deque_);
        if (entries >= kLeastOfLargest) {
            note_large(entries);
        }
        if (entries >= least_.entries && (entries >= kLeast.entries || small_++ < kMostSmall) &&
            rises(looks().containers, object, Py_TYPE(object), entries, sequence_, least_)) {
            containers_.push_back(Growing{looks().containers[object], met_.size() - 1});
        }
    }

    static void meet_referred(void* look, PyObject* object, std::size_t from) {
        static_cast<Look*>(look)->meet(object, from);
    }

    void read(std::size_t place) {
        if (met_.object(place) != roots_) {
            reader_.read(met_.object(place), place);
        }
    }

    bool append(PyObject* list, const Growing& one) const {
        PyObject* const path = path_from_root(met_, one.place);
        PyObject* const entry = path == nullptr
                                    ? nullptr
                                    : Py_BuildValue("(Nnnn)", path, one.known.entries, one.known.first_entries,
                                                    static_cast<Py_ssize_t>(one.known.first_sequence));
        const bool is_done = entry != nullptr && PyList_Append(list, entry) == 0;
        Py_XDECREF(entry);
        return is_done;
    }

    PyTypeObject* deque_;
    Deadline& deadline_;
    PyObject* roots_;
    std::uint64_t sequence_;
    Wanted wanted_;
    Met met_;
    ReferenceReader reader_;
    Least least_ = kLeastOfProgram;
    std::size_t small_ = 0;  // met so far
    std::vector<Growing> containers_;
    std::vector<Growing> classes_;
    std::vector<Large> largest_;
};

// The function that looks, and whether the interpreter was asked to call it, or does so.
PyObject* awaited_look = nullptr;
enum class Call { kNone, kPending, kRunning };
std::atomic<Call> look_call{Call::kNone};

int call_look(void* /*unused*/) {
    look_call.store(Call::kRunning);
    PyObject* const look = awaited_look;
    if (look != nullptr) {
        const OwnCode own_code;
        Py_INCREF(look);
        PyObject* const result = PyObject_CallNoArgs(look);
        Py_DECREF(look);
        Py_XDECREF(result);
        if (result == nullptr) {
            end_exception();
        }
    }
    look_call.store(Call::kNone);
    return 0;
}

bool ask_for_look() noexcept {
    // With the GIL the interpreter is not about to end, and no other thread forks. Torch frees tensors without it: the
    // main thread may ask all the same, as it evaluates Python code next, and no interpreter ends before that.
    if (PyGILState_Check() == 0 && (syscall(SYS_gettid) != getpid() || PyGILState_GetThisThreadState() == nullptr)) {
        return false;
    }
    // While one runs, the next one waits for its end: the program must come to its own code between them.
    Call call = Call::kNone;
    if (!look_call.compare_exchange_strong(call, Call::kPending)) {
        return call == Call::kPending;
    }
    if (Py_AddPendingCall(&call_look, nullptr) != 0) {
        look_call.store(Call::kNone);
        return false;
    }
    return true;
}

}  // namespace

PyObject* growing_containers(PyObject* /*self*/, PyObject* arguments) {
    PyObject* roots = nullptr;
    PyObject* deque = nullptr;
    long long limit_ns = 0;
    Py_ssize_t first_roots = 0;
    Py_ssize_t most = 0;
    if (PyArg_ParseTuple(arguments, "O!nO!Ln:growing_containers", &PyList_Type, &roots, &first_roots, &PyType_Type,
                         &deque, &limit_ns, &most) == 0) {
        return nullptr;
    }
    const CollectorRests rests;
    Deadline deadline(limit_ns);
    ++looks().count;
    Look look(reinterpret_cast<PyTypeObject*>(deque), deadline, roots);
    const bool is_complete = look.follow(static_cast<std::size_t>(first_roots < 0 ? 0 : first_roots));
    if (is_complete) {
        look.count_classes();
    }
    forget_what_is_gone(looks().containers);
    PyObject* const found = look.found(static_cast<std::size_t>(most < 0 ? 0 : most));
    PyObject* const largest = found == nullptr ? nullptr : look.largest();
    if (largest == nullptr) {
        Py_XDECREF(found);
        return nullptr;
    }
    return Py_BuildValue("(NNO)", found, largest, is_complete ? Py_True : Py_False);
}

PyObject* forget_containers(PyObject* /*self*/, PyObject* /*arguments*/) {
    looks() = Looks{};
    look_call.store(Call::kNone);
    Py_RETURN_NONE;
}

PyObject* await_container_look(PyObject* /*self*/, PyObject* arguments) {
    long long delay_ns = 0;
    PyObject* look = nullptr;
    if (PyArg_ParseTuple(arguments, "LO:await_container_look", &delay_ns, &look) == 0) {
        return nullptr;
    }
    if (delay_ns < 0) {
        container_looks::await_no_more();
        Py_CLEAR(awaited_look);
        Py_RETURN_NONE;
    }
    Py_INCREF(look);
    Py_XSETREF(awaited_look, look);
    container_looks::await(static_cast<std::uint64_t>(delay_ns), &ask_for_look);
    Py_RETURN_NONE;
}

PyObject* note_container(PyObject* /*self*/, PyObject* arguments) {
    container_looks::Container container{};
    unsigned long long address = 0;
    unsigned long long entries = 0;
    unsigned long long first_entries = 0;
    unsigned long long first_sequence = 0;
    unsigned long long bytes = 0;
    if (PyArg_ParseTuple(arguments, "KsssKKKK:note_container", &address, &container.chain, &container.container_type,
                         &container.entry_type, &entries, &first_entries, &first_sequence, &bytes) == 0) {
        return nullptr;
    }
    container.address = address;
    container.entries = entries;
    container.first_entries = first_entries;
    container.first_sequence = first_sequence;
    container.bytes = bytes;
    return PyBool_FromLong(container_looks::note(container) ? 1 : 0);
}

PyMethodDef kContainerMethods[] = {
    {"growing_containers", growing_containers, METH_VARARGS, "One look at containers; see growing_containers.h."},
    {"forget_containers", forget_containers, METH_NOARGS, "Nothing was looked at yet."},
    {"await_container_look", await_container_look, METH_VARARGS, "Calls a function later; see growing_containers.h."},
    {"note_container", note_container, METH_VARARGS, "Records a container that has grown."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace msmemscope
