#include "replay.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "columns.h"
#include "offline/replay/replay.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

template <typename Number>
using Numbers = nb::ndarray<const Number, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Throws KeyError where one is missing: Python has all of them, always.
replay::AllocatorSettings settings_of(const nb::dict& given) {
    const auto number = [&given](const char* name) { return nb::cast<std::uint64_t>(given[name]); };
    replay::AllocatorSettings settings;
    settings.padding_bytes = number("padding_bytes");
    settings.large_segment_bytes = number("large_segment_bytes");
    settings.large_chunk_bytes = number("large_chunk_bytes");
    settings.page_bytes = number("page_bytes");
    settings.most_split_bytes = number("most_split_bytes");
    settings.most_unsplit_rest_bytes = number("most_unsplit_rest_bytes");
    settings.front_alignment_bytes = number("front_alignment_bytes");
    settings.allowed_bytes = number("allowed_bytes");
    settings.device_bytes = std::min(number("device_bytes"), replay::kMostRequestBytes);
    settings.driver_bytes = number("driver_bytes");
    settings.collection_threshold = nb::cast<double>(given["collection_threshold"]);
    settings.is_expandable = nb::cast<bool>(given["is_expandable"]);
    const auto order = nb::cast<int>(given["address_order"]);
    const auto divisions = nb::cast<nb::tuple>(given["power2_divisions"]);
    if (divisions.size() != settings.power2_divisions.size() || order < 0 ||
        order > static_cast<int>(replay::AddressOrder::kRising) || settings.large_segment_bytes == 0 ||
        settings.large_chunk_bytes == 0 || settings.page_bytes == 0) {
        throw nb::value_error("no settings of an allocator");
    }
    settings.address_order = static_cast<replay::AddressOrder>(order);
    for (std::size_t index = 0; index < divisions.size(); ++index) {
        settings.power2_divisions[index] = nb::cast<std::uint64_t>(divisions[index]);
    }
    return settings;
}

template <typename Number>
Number count_of(const Number* numbers, std::size_t count) {
    return count == 0 ? 0 : *std::max_element(numbers, numbers + count) + 1;
}

const char* word_of(replay::FailureReason reason) {
    return reason == replay::FailureReason::kFraction ? "fraction" : "driver";
}

nb::dict content_of(const replay::Summary& summary) {
    nb::dict found;
    found["peak_allocated_bytes"] = summary.peak_allocated_bytes;
    found["peak_allocated_event"] = summary.peak_allocated_event;
    found["peak_reserved_bytes"] = summary.peak_reserved_bytes;
    found["peak_reserved_event"] = summary.peak_reserved_event;
    found["allocated_at_peak_bytes"] = summary.allocated_at_peak_bytes;
    found["end_allocated_bytes"] = summary.end_allocated_bytes;
    found["end_reserved_bytes"] = summary.end_reserved_bytes;
    found["most_segments"] = summary.most_segments;
    found["retries"] = summary.retries;
    found["replayed_events"] = summary.replayed_events;
    if (!summary.failure.is_there) {
        found["failure"] = nb::none();
        return found;
    }
    const replay::Failure& failure = summary.failure;
    nb::dict reason;
    reason["event"] = failure.event;
    reason["limit"] = word_of(failure.reason);
    reason["requested_bytes"] = failure.requested_bytes;
    reason["block_bytes"] = failure.block_bytes;
    reason["segment_bytes"] = failure.segment_bytes;
    reason["allocated_bytes"] = failure.allocated_bytes;
    reason["reserved_bytes"] = failure.reserved_bytes;
    reason["free_bytes"] = failure.free_bytes;
    reason["largest_free_bytes"] = failure.largest_free_bytes;
    reason["fits_after_release"] = failure.fits_after_release;
    found["failure"] = reason;
    return found;
}

nb::dict columns_of(replay::Course course) {
    nb::dict found;
    found["address"] = column_of(std::move(course.addresses));
    found["segment"] = column_of(std::move(course.segments));
    found["block_bytes"] = column_of(std::move(course.block_bytes));
    found["allocated_bytes"] = column_of(std::move(course.allocated_bytes));
    found["reserved_bytes"] = column_of(std::move(course.reserved_bytes));
    found["segment_count"] = column_of(std::move(course.segment_counts));
    found["inferred"] = column_of(std::move(course.inferred));
    return found;
}

// Throws ValueError where the columns do not belong together.
replay::States states_of(const nb::dict& given, const replay::Events& events) {
    const auto bytes = [&given](const char* name) { return nb::cast<Numbers<std::uint8_t>>(given[name]); };
    const auto numbers = [&given](const char* name) { return nb::cast<Numbers<std::uint32_t>>(given[name]); };
    const auto places = [&given](const char* name) { return nb::cast<Numbers<std::uint64_t>>(given[name]); };
    const auto leads_to_one = bytes("leads_to_one");
    const auto state = numbers("state");
    const auto streams = numbers("stream");
    const auto pools = numbers("pool");
    const auto holders = numbers("holder");
    const auto segments = places("segment_address");
    const auto addresses = places("address");
    const auto sizes = places("bytes");
    const auto uses = bytes("use");
    const auto is_small = bytes("is_small");
    const auto is_expandable = bytes("is_expandable");
    const std::size_t count = state.shape(0);
    replay::States states;
    states.parts.resize(nb::cast<std::size_t>(given["count"]));
    bool is_right = leads_to_one.shape(0) == events.count && streams.shape(0) == count && pools.shape(0) == count &&
                    holders.shape(0) == count && segments.shape(0) == count && addresses.shape(0) == count &&
                    sizes.shape(0) == count && uses.shape(0) == count && is_small.shape(0) == count &&
                    is_expandable.shape(0) == count;
    for (std::size_t event = 0; is_right && event < events.count; ++event) {
        is_right = static_cast<replay::Action>(events.actions[event]) != replay::Action::kRestore ||
                   events.blocks[event] < states.parts.size();
    }
    for (std::size_t index = 0; is_right && index < count; ++index) {
        const std::uint32_t holder = holders.data()[index];
        is_right = state.data()[index] < states.parts.size() && streams.data()[index] < events.stream_count &&
                   pools.data()[index] <= events.private_pools && uses.data()[index] <= 2 &&
                   (holder < events.block_count || holder == replay::Block::kNobody);
        if (is_right) {
            states.parts[state.data()[index]].push_back(
                {segments.data()[index], addresses.data()[index], sizes.data()[index], streams.data()[index],
                 pools.data()[index], holder, static_cast<replay::Block::State>(uses.data()[index]),
                 is_small.data()[index] != 0, is_expandable.data()[index] != 0});
        }
    }
    if (!is_right) {
        throw nb::value_error("states do not belong to the events");
    }
    states.leads_to_one.assign(leads_to_one.data(), leads_to_one.data() + events.count);
    return states;
}

nb::tuple replay_events(const Numbers<std::uint8_t>& actions, const Numbers<std::uint32_t>& blocks,
                        const Numbers<std::uint64_t>& bytes, const Numbers<std::uint32_t>& streams,
                        const Numbers<std::uint32_t>& pools, const nb::dict& given,
                        const std::optional<Numbers<std::uint32_t>>& released,
                        const std::optional<Numbers<std::uint32_t>>& first_address,
                        const std::optional<Numbers<std::uint64_t>>& addresses,
                        const std::optional<nb::dict>& given_states, std::uint32_t block_count,
                        std::uint32_t stream_count, std::uint32_t pool_count, bool with_course) {
    replay::Events events;
    events.count = actions.shape(0);
    if (blocks.shape(0) != events.count || bytes.shape(0) != events.count || streams.shape(0) != events.count ||
        pools.shape(0) != events.count) {
        throw nb::value_error("columns of different length");
    }
    replay::RecordedColumns recorded;
    if (released) {
        if (!first_address || !addresses || released->shape(0) != events.count ||
            first_address->shape(0) != events.count + 1 ||
            !std::is_sorted(first_address->data(), first_address->data() + events.count + 1) ||
            first_address->data()[events.count] > addresses->shape(0)) {
            throw nb::value_error("segments do not belong to the events");
        }
        recorded = {released->data(), first_address->data(), addresses->data()};
    }
    const replay::AllocatorSettings settings = settings_of(given);
    events.actions = actions.data();
    events.blocks = blocks.data();
    events.bytes = bytes.data();
    events.streams = streams.data();
    events.pools = pools.data();
    // States may have more than the events do.
    events.block_count = std::max(block_count, count_of(events.blocks, events.count));
    events.stream_count = std::max(stream_count, count_of(events.streams, events.count));
    events.private_pools = std::max({pool_count, count_of(events.pools, events.count), 1U}) - 1;
    std::optional<replay::States> states;
    if (given_states) {
        states = states_of(*given_states, events);
    }
    replay::Summary summary;
    replay::Course course;
    {
        const nb::gil_scoped_release released_gil;
        summary =
            replay::replay(settings, events, recorded, states ? &*states : nullptr, with_course ? &course : nullptr);
    }
    nb::object columns = nb::none();
    if (with_course) {
        columns = columns_of(std::move(course));
    }
    return nb::make_tuple(content_of(summary), columns);
}

}  // namespace

void define_replay(nb::module_& module) {
    module.def(
        "replay", &replay_events, nb::arg("actions"), nb::arg("blocks"), nb::arg("bytes"), nb::arg("streams"),
        nb::arg("pools"), nb::arg("settings"), nb::arg("released").none(), nb::arg("first_address").none(),
        nb::arg("addresses").none(), nb::arg("states").none(), nb::arg("block_count"), nb::arg("stream_count"),
        nb::arg("pool_count"), nb::arg("with_course"),
        "Replays allocations through a model of torch's caching allocator; native/offline/replay/replay.h has the "
        "meaning of the columns. Returns a summary, and columns of what each event left behind, or None.");
}

}  // namespace msmemscope
