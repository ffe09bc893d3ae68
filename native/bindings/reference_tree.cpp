#include "reference_tree.h"

#include <cstdint>
#include <memory>

namespace msmemscope {
namespace {

constexpr const char* kCapsule = "msmemscope.reference_tree";
constexpr std::uint32_t kNotKept = UINT32_MAX;

struct Tree {
    Met met;                          // what lies on a path, each object referenced once
    std::vector<std::size_t> places;  // of the objects that the paths lead to

    Tree() = default;
    Tree(const Tree&) = delete;
    Tree& operator=(const Tree&) = delete;
    ~Tree() {
        for (std::size_t place = 0; place < met.size(); ++place) {
            Py_DECREF(met.object(place));
        }
    }
};

void end_tree(PyObject* capsule) { delete static_cast<Tree*>(PyCapsule_GetPointer(capsule, kCapsule)); }

// Copies the path to a place; what another path has in common with it is there already.
std::size_t keep(Tree& tree, const Met& met, std::size_t place, std::vector<std::uint32_t>& kept,
                 std::vector<std::size_t>& way) {
    way.clear();
    for (; place != kNowhere && kept[place] == kNotKept; place = met.parent(place)) {
        way.push_back(place);
    }
    std::size_t parent = place == kNowhere ? kNowhere : kept[place];
    for (auto step = way.rbegin(); step != way.rend(); ++step) {
        tree.met.add(met.object(*step), parent);
        Py_INCREF(met.object(*step));
        parent = tree.met.size() - 1;
        kept[*step] = static_cast<std::uint32_t>(parent);
    }
    return parent;
}

}  // namespace

PyObject* new_reference_tree(const Met& met, const std::vector<std::size_t>& places) {
    auto tree = std::make_unique<Tree>();
    std::vector<std::uint32_t> kept(met.size(), kNotKept);
    std::vector<std::size_t> way;
    for (const std::size_t place : places) {
        tree->places.push_back(keep(*tree, met, place, kept, way));
    }
    PyObject* capsule = PyCapsule_New(tree.get(), kCapsule, &end_tree);
    if (capsule != nullptr) {
        tree.release();
    }
    return capsule;
}

PyObject* paths_to(PyObject* /*self*/, PyObject* arguments) {
    PyObject* capsule = nullptr;
    Wanted wanted;
    if (PyArg_ParseTuple(arguments, "OO!:paths_to", &capsule, &PySet_Type, &wanted.objects) == 0) {
        return nullptr;
    }
    const auto* tree = static_cast<const Tree*>(PyCapsule_GetPointer(capsule, kCapsule));
    PyObject* paths = tree == nullptr ? nullptr : PyList_New(0);
    for (std::size_t index = 0; paths != nullptr && index < tree->places.size(); ++index) {
        if (!wanted.is_wanted_object(tree->met.object(tree->places[index]))) {
            continue;
        }
        PyObject* path = path_from_root(tree->met, tree->places[index]);
        if (path == nullptr || PyList_Append(paths, path) != 0) {
            Py_CLEAR(paths);
        }
        Py_XDECREF(path);
    }
    return paths;
}

}  // namespace msmemscope
