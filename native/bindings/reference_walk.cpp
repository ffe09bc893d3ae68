#include "reference_walk.h"

#include <frameobject.h>  // PyFrame_Check, before Python 3.11

#include <algorithm>

#include "python_frames.h"

namespace msmemscope {
namespace {

constexpr std::size_t kLongestPath = 256;

// As PyObject_IS_GC, which is a call.
bool is_collected(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    return PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC) != 0 &&
           (type->tp_is_gc == nullptr || type->tp_is_gc(object) != 0);
}

bool is_followed(const Wanted& wanted, PyObject* object) {
    if (is_collected(object)) {
        return true;
    }
    for (const Wanted::Reference& one : wanted.references) {
        if (PyObject_TypeCheck(object, one.type) != 0) {
            return true;
        }
    }
    return false;
}

bool read_pairs(PyObject* list, bool (*add)(Wanted&, PyTypeObject*, PyObject*), Wanted& into) {
    for (Py_ssize_t place = 0; place < PyList_GET_SIZE(list); ++place) {
        PyObject* type = nullptr;
        PyObject* other = nullptr;
        if (PyArg_ParseTuple(PyList_GET_ITEM(list, place), "O!O", &PyType_Type, &type, &other) == 0 ||
            !add(into, reinterpret_cast<PyTypeObject*>(type), other)) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::size_t Met::find(PyObject* object) const {
    for (std::size_t slot = hash(object);; slot = (slot + 1) & (slots_.size() - 1)) {
        if (slots_[slot] == 0) {
            return kNowhere;
        }
        if (objects_[slots_[slot] - 1] == object) {
            return slots_[slot] - 1;
        }
    }
}

bool Met::add(PyObject* object, std::size_t parent) {
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

void Met::grow() {
    std::vector<std::uint32_t>(slots_.size() * 2, 0).swap(slots_);
    for (std::size_t place = 0; place < objects_.size(); ++place) {
        std::size_t slot = hash(objects_[place]);
        while (slots_[slot] != 0) {
            slot = (slot + 1) & (slots_.size() - 1);
        }
        slots_[slot] = static_cast<std::uint32_t>(place + 1);
    }
}

bool Wanted::read_kinds(PyObject* memory_kinds, PyObject* reference_kinds, PyObject* late_kinds) {
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(late_kinds); ++place) {
        PyObject* type = PyTuple_GET_ITEM(late_kinds, place);
        if (!PyType_Check(type)) {
            PyErr_SetString(PyExc_TypeError, "not a type");
            return false;
        }
        late.push_back(reinterpret_cast<PyTypeObject*>(type));
    }
    const auto add_memory = [](Wanted& into, PyTypeObject* type, PyObject* address) {
        into.memories.push_back({type, address});
        return true;
    };
    const auto add_reference = [](Wanted& into, PyTypeObject* type, PyObject* descriptor) {
        if (Py_TYPE(descriptor)->tp_descr_get == nullptr) {
            PyErr_SetString(PyExc_TypeError, "not a descriptor");
            return false;
        }
        into.references.push_back({type, descriptor});
        return true;
    };
    return read_pairs(memory_kinds, add_memory, *this) && read_pairs(reference_kinds, add_reference, *this);
}

bool Wanted::has_memory(PyObject* object) const {
    for (const Memory& one : memories) {
        if (PyObject_TypeCheck(object, one.type) != 0) {
            return true;
        }
    }
    return false;
}

bool Wanted::is_late(PyObject* object) const {
    return std::any_of(late.begin(), late.end(),
                       [object](PyTypeObject* type) { return PyObject_TypeCheck(object, type) != 0; });
}

bool Wanted::is_wanted_object(PyObject* object) const {
    PyObject* identity = PyLong_FromVoidPtr(object);
    const bool is_object = identity != nullptr && PySet_Contains(objects, identity) == 1;
    Py_XDECREF(identity);
    PyErr_Clear();
    return is_object;
}

bool Wanted::is_wanted(PyObject* object) const {
    if (objects != nullptr && is_wanted_object(object)) {
        return true;
    }
    for (const Memory& one : memories) {
        if (PyObject_TypeCheck(object, one.type) == 0) {
            continue;
        }
        PyObject* address = PyObject_CallOneArg(one.address, object);
        const bool is_there = address != nullptr && PyDict_Contains(addresses, address) == 1;
        Py_XDECREF(address);
        PyErr_Clear();
        return is_there;
    }
    return false;
}

void ReferenceReader::read(PyObject* object, std::size_t place) {
    place_ = place;
    if (PyFrame_Check(object)) {
        visit_frame_locals(reinterpret_cast<PyFrameObject*>(object), &take_local, this);
    }
    if (!is_collected(object)) {
        take_by_descriptor(object);
    } else if (Py_TYPE(object)->tp_traverse != nullptr && PyObject_GC_IsTracked(object) != 0) {
        // An object that is not tracked refers to no tracked object, or is still being made.
        Py_TYPE(object)->tp_traverse(object, &take, this);
    }
}

void ReferenceReader::hand_on() {
    while (handed_on_ != taken_) {
        hand_on_one(waiting_[handed_on_++ % kMostWaiting]);
    }
}

bool ReferenceReader::reaches(std::size_t place) {
    const bool is_over = deadline_.is_over();
    if (is_over || place == met_.size()) {
        hand_on();
    }
    return !is_over && place < met_.size();
}

int ReferenceReader::take(PyObject* object, void* reader) {
    auto* self = static_cast<ReferenceReader*>(reader);
    if (object != nullptr) {
        __builtin_prefetch(object);
        self->met_.expect(object);
        if (self->taken_ - self->handed_on_ == kMostWaiting) {
            self->hand_on_one(self->waiting_[self->handed_on_++ % kMostWaiting]);
        }
        self->waiting_[self->taken_++ % kMostWaiting] = {object, self->place_};
    }
    return self->deadline_.is_over() ? 1 : 0;
}

void ReferenceReader::take_local(void* reader, PyObject* /*name*/, PyObject* value) { take(value, reader); }

void ReferenceReader::take_by_descriptor(PyObject* object) {
    for (const Wanted::Reference& one : wanted_.references) {
        if (PyObject_TypeCheck(object, one.type) == 0) {
            continue;
        }
        PyObject* other =
            Py_TYPE(one.descriptor)->tp_descr_get(one.descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object)));
        if (other == nullptr) {
            PyErr_Clear();
            continue;
        }
        // The object that refers to it keeps it alive.
        Py_DECREF(other);
        take(other, this);
    }
}

void ReferenceReader::hand_on_one(const Taken& one) {
    if (is_followed(wanted_, one.object)) {
        visit_(context_, one.object, one.from);
    }
}

PyObject* path_from_root(const Met& met, std::size_t place) {
    std::vector<PyObject*> backwards;
    for (; place != kNowhere && backwards.size() < kLongestPath; place = met.parent(place)) {
        backwards.push_back(met.object(place));
    }
    PyObject* path = PyList_New(0);
    for (auto object = backwards.rbegin(); path != nullptr && object != backwards.rend(); ++object) {
        if (PyList_Append(path, *object) != 0) {
            Py_CLEAR(path);
        }
    }
    return path;
}

}  // namespace msmemscope
