// The walk along references that both searches share: which objects were met, and from which one.
//
// References are read with tp_traverse, as the garbage collector reads them. Nothing that was met is referenced: the
// collector must rest, and nothing may be freed, while a walk is in use. All of it needs the GIL.
#pragma once

#include <Python.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/writer/monotonic_clock.h"

namespace msmemscope {

constexpr std::size_t kNowhere = SIZE_MAX;
// Places between an object that is read and the one that the processor fetches meanwhile.
constexpr std::size_t kReadAhead = 8;

// Objects that were met, each with the place of the one it was met from. It is a hash table with open addressing. A
// process with torch has half a million objects, and allocating a node for each would take more time than following the
// references.
class Met {
public:
    Met() : slots_(1U << 16U, 0) {}

    std::size_t size() const { return objects_.size(); }
    PyObject* object(std::size_t place) const { return objects_[place]; }
    // kNowhere for a root.
    std::size_t parent(std::size_t place) const { return parents_[place] == UINT32_MAX ? kNowhere : parents_[place]; }

    // The place of an object, kNowhere if it was not met.
    std::size_t find(PyObject* object) const;
    // False if it was met before.
    bool add(PyObject* object, std::size_t parent);
    // It is looked for soon.
    void expect(PyObject* object) const { __builtin_prefetch(&slots_[hash(object)]); }
    // The one at a place is read soon.
    void expect_reading(std::size_t place) const {
        if (place < objects_.size()) {
            __builtin_prefetch(reinterpret_cast<char*>(objects_[place]) - kCollectorHeadBytes);
            __builtin_prefetch(objects_[place]);
        }
    }

private:
    static constexpr std::size_t kCollectorHeadBytes = 16;  // before each object

    std::size_t hash(PyObject* object) const {
        const auto bits = reinterpret_cast<std::uintptr_t>(object) >> 4U;
        return (bits * 0x9E3779B97F4A7C15ULL >> 20U) & (slots_.size() - 1);
    }
    void grow();

    std::vector<PyObject*> objects_;
    std::vector<std::uint32_t> parents_;
    std::vector<std::uint32_t> slots_;
};

// The wanted memory and objects, and facts about objects that the garbage collector does not follow.
struct Wanted {
    // Of things that have memory (tensors, storages): their type, and a function of C that returns where it begins.
    struct Memory {
        PyTypeObject* type;
        PyObject* address;
    };
    // Of things that the collector does not follow (arrays of NumPy): the attribute that refers to another object.
    struct Reference {
        PyTypeObject* type;
        PyObject* descriptor;
    };
    std::vector<Memory> memories;
    std::vector<Reference> references;
    std::vector<PyTypeObject*> late;  // types of things that refer to what is another's, as optimizers to weights
    PyObject* addresses = nullptr;    // dict: its keys are addresses of memory
    PyObject* objects = nullptr;      // set: ids of objects; null for none

    // False with an exception where the arguments are not lists of pairs, and a tuple of types.
    bool read_kinds(PyObject* memory_kinds, PyObject* reference_kinds, PyObject* late_kinds);
    bool is_late(PyObject* object) const;
    bool has_memory(PyObject* object) const;
    bool is_wanted_object(PyObject* object) const;
    // Whether it is a wanted object, or has wanted memory.
    bool is_wanted(PyObject* object) const;
};

class Deadline {
public:
    explicit Deadline(std::int64_t limit_ns) : ends_ns_(static_cast<std::int64_t>(thread_time_ns()) + limit_ns) {}

    // Looks at the clock now and then. Once it is, it stays so.
    bool is_over() {
        if (asked_++ % kQuestionsPerLook == 0) {
            is_over_ = is_over_ || static_cast<std::int64_t>(thread_time_ns()) > ends_ns_;
        }
        return is_over_;
    }
    void end() { is_over_ = true; }

private:
    static constexpr std::size_t kQuestionsPerLook = 512;
    std::int64_t ends_ns_;
    std::size_t asked_ = 0;
    bool is_over_ = false;
};

// Reads the references of objects: all that a walk may follow, the local variables of frames among them.
//
// They are handed on some references later, in their order. Meanwhile the processor fetches the objects from memory. A
// walk that looks at each at once spends most of its time in waiting. When the time is over, an object is not read to
// its end: a list of millions would take long.
class ReferenceReader {
public:
    // Called with an object, and with the place of the one that refers to it.
    using Visit = void (*)(void* context, PyObject* object, std::size_t from);

    // `met` is where `visit` looks for objects.
    ReferenceReader(const Wanted& wanted, const Met& met, Deadline& deadline, Visit visit, void* context)
        : wanted_(wanted), met_(met), deadline_(deadline), visit_(visit), context_(context) {}

    void read(PyObject* object, std::size_t place);
    // Hands on those that wait.
    void hand_on();
    // Whether an object at a place is met, once those that wait were handed on, and there is time to read it.
    bool reaches(std::size_t place);

private:
    struct Taken {
        PyObject* object;
        std::size_t from;
    };
    static constexpr std::size_t kMostWaiting = 32;

    static int take(PyObject* object, void* reader);
    static void take_local(void* reader, PyObject* name, PyObject* value);
    void take_by_descriptor(PyObject* object);
    void hand_on_one(const Taken& one);

    const Wanted& wanted_;
    const Met& met_;
    Deadline& deadline_;
    Visit visit_;
    void* context_;
    std::size_t place_ = 0;  // of the object that is read
    std::size_t taken_ = 0;
    std::size_t handed_on_ = 0;
    std::array<Taken, kMostWaiting> waiting_;  // a ring
};

// Objects that were met are not referenced: nothing may be freed until the paths are made.
class CollectorRests {
public:
    CollectorRests() : was_enabled_(PyGC_Disable()) {}
    ~CollectorRests() {
        if (was_enabled_ != 0) {
            PyGC_Enable();
        }
    }
    CollectorRests(const CollectorRests&) = delete;
    CollectorRests& operator=(const CollectorRests&) = delete;

private:
    int was_enabled_;
};

// A new list of the objects from the root of a walk to the one at a place; null with an exception.
PyObject* path_from_root(const Met& met, std::size_t place);

}  // namespace msmemscope
