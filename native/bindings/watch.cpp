#include "bindings/watch.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "watch/content_hash.h"
#include "watch/watch.h"
#include "watch_operands.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

std::uint32_t add_watch(bool is_tensor, bool is_trained, std::uint64_t address, std::uint64_t item_bytes,
                        const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides, int device,
                        const std::string& name, std::int64_t dump_count) {
    watch::Content content;
    if (!content_of_view(address, item_bytes, shape, strides, content)) {
        return 0;
    }
    const watch::Target of_tensor = is_trained ? watch::Target::kTrainedTensor : watch::Target::kTensor;
    const nb::gil_scoped_release released;  // whoever holds the watch's lock may wait for a device
    return watch::add(is_tensor ? of_tensor : watch::Target::kAddress, content, static_cast<format::Device>(device),
                      name.c_str(), dump_count);
}

std::uint64_t checksum(const nb::bytes& content, bool crc64) {
    const std::size_t bytes = content.size();
    if (crc64) {
        return watch::continue_crc64(0, content.c_str(), bytes);
    }
    std::vector<std::uint64_t> hashes((bytes + watch::kSegmentBytes - 1) / watch::kSegmentBytes);
    watch::hash_segments(content.c_str(), bytes, hashes.data());
    return watch::combine_segments(hashes.data(), hashes.size(), bytes);
}

}  // namespace

void define_watch(nb::module_& module) {
    module.def("watch_add", &add_watch, nb::arg("is_tensor"), nb::arg("is_trained"), nb::arg("address"),
               nb::arg("item_bytes"), nb::arg("shape"), nb::arg("strides"), nb::arg("device"), nb::arg("name"),
               nb::arg("dump_count"), "Watches memory; returns the number of the watch, 0 if it cannot be read.");
    module.def("watch_remove", &watch::remove, nb::arg("address"), nb::arg("length") = 0,
               "Ends the watch of memory at an address. False if there is none.");
    module.def("watch_memory_ends", &watch::memory_ends, nb::arg("number"), "The memory of a watch was freed.");
    module.def("watch_in_known_block", &watch::is_in_known_block, nb::arg("address"),
               "Whether an address lies in a live block that is followed.");
    module.def(
        "watch_device_at", [](std::uint64_t address) { return static_cast<int>(watch::device_at(address)); },
        nb::arg("address"), "The device of the live block that holds an address; DEVICE_NONE if none is known.");
    module.def(
        "watch_graph_begins", [](const nb::object& inputs) { return watch_graph_begins(inputs.ptr()); },
        nb::arg("inputs"), "A compiled graph runs, and may write its inputs. False if that is of no interest.");
    module.def("watch_graph_ends", &watch_graph_ends, "It has ended.");
    module.def("watch_checksum", &checksum, nb::arg("content"), nb::arg("crc64") = false,
               "The checksum of content, as watching it has it.");
    module.def(
        "set_watch_synchronize", [](const nb::object& function) { set_watch_synchronize(function.ptr()); },
        nb::arg("function").none(), "What makes NPUs finish, before their memory is looked at.");
}

}  // namespace msmemscope
