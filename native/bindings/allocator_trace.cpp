#include "allocator_trace.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/format/record.h"
#include "core/writer/recorder.h"
#include "sources/ascend/mstx/pools.h"
#include "sources/ascend/torch_npu/allocator_trace.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

std::optional<std::string> attach(const std::string& version, bool is_late) {
    const char* const why = allocator_trace::attach(version.c_str(), is_late);
    return why == nullptr ? std::nullopt : std::optional<std::string>(why);
}

std::vector<std::tuple<int, std::uint64_t, std::uint64_t>> end_state() {
    const allocator_trace::Moment* moments = nullptr;
    const std::size_t count = allocator_trace::end_state(moments);
    std::vector<std::tuple<int, std::uint64_t, std::uint64_t>> found;
    for (std::size_t number = 0; number < count; ++number) {
        found.emplace_back(moments[number].device, moments[number].sequence, moments[number].active_bytes);
    }
    return found;
}

bool record_held(int kind, int device, std::uint64_t address, std::uint64_t size, std::uint64_t stream,
                 const std::tuple<std::uint64_t, std::uint64_t>& pool, std::int64_t requested_bytes, bool is_small) {
    return allocator_trace::record_held({static_cast<format::EventKind>(kind),
                                         device,
                                         address,
                                         size,
                                         stream,
                                         {std::get<0>(pool), std::get<1>(pool)},
                                         requested_bytes,
                                         is_small});
}

}  // namespace

void define_allocator_trace(nb::module_& module) {
    module.def("attach_allocator_trace", &attach, nb::arg("version"), nb::arg("is_late"),
               "Lets torch_npu's caching allocator tell what it does. Returns why that cannot be; None if it does.");
    module.def(
        "begin_allocator_state", &allocator_trace::begin_state,
        "This thread is about to take a snapshot of the allocator, to record its state. False if it tells nothing.");
    module.def(
        "are_allocator_blocks_told", [] { return mstx::is_domain_known(format::Pool::kPta); },
        "Whether mstx is told of the allocator's blocks.");
    module.def("take_allocator_blocks", &allocator_trace::take_blocks,
               "Takes blocks from what the allocator tells, since mstx tells nothing. False if it cannot be.");
    module.def("begin_allocator_comparison", &allocator_trace::begin_comparison,
               "As begin_allocator_state, for a snapshot that is compared and not recorded.");
    module.def("note_allocator_reserved", &allocator_trace::note_reserved, nb::arg("device"), nb::arg("bytes"),
               "A snapshot was as the allocator told: adds the bytes that it has reserved on the driver's device.");
    module.def("end_allocator_state", &end_state,
               "It was taken. Returns the program's number of each device that it is of, the number that events of "
               "its allocator have from then on at least (0: its state is known or not wanted), and its active bytes.");
    module.def("record_held", &record_held, nb::arg("kind"), nb::arg("device"), nb::arg("address"), nb::arg("size"),
               nb::arg("stream"), nb::arg("pool"), nb::arg("requested_bytes") = -1, nb::arg("is_small") = false,
               "Records a segment or a block of a state. False if it was dropped.");
    module.def(
        "lose_allocator_state", [](const std::string& why) { allocator_trace::lose_state(why.c_str()); },
        nb::arg("why"), "The state could not be recorded: what the allocator says means nothing from here on.");
}

}  // namespace msmemscope
