#include "plain_pickle.h"

#include "offline/plain_pickle/plain_pickle.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

nb::tuple walk(const nb::bytes& content) {
    PickleWalk found;
    {
        const nb::gil_scoped_release released;
        found = walk_pickle({content.c_str(), content.size()});
    }
    return nb::make_tuple(static_cast<int>(found.fault), found.place, found.object_bytes);
}

}  // namespace

void define_plain_pickle(nb::module_& module) {
    module.def(
        "walk_pickle", &walk, nb::arg("content"), nb::sig("def walk_pickle(content: bytes) -> tuple[int, int, int]"),
        "Looks at every opcode of a pickle. Returns what is wrong (`PickleFault` of native/offline/plain_pickle, 0 for "
        "nothing), the place of the opcode, and about how many bytes Python needs for what it makes.");
}

}  // namespace msmemscope
