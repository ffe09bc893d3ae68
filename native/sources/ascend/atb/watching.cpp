#include "sources/ascend/atb/watching.h"

#include <cstring>

#include "sources/ascend/atb/events.h"
#include "sources/ascend/atb/layouts.h"
#include "watch/watch.h"

namespace msmemscope::atb {
namespace {

constexpr std::size_t kMostOutputs = 48;

// Contiguous: that is what ATB's tensors are.
struct Outputs {
    watch::Output list[kMostOutputs];
    watch::Range ranges[kMostOutputs + 2];
    std::size_t count = 0;
    std::size_t range_count = 0;

    void add(std::uint64_t address, std::uint64_t bytes, format::Device device) noexcept {
        if (address == 0 || bytes == 0 || count == kMostOutputs) {
            return;
        }
        list[count].content.address = address;
        list[count].content.run_bytes = bytes;
        list[count++].device = device;
        add_range(address, bytes);
    }
    void add_range(std::uint64_t address, std::uint64_t bytes) noexcept {
        if (address != 0 && bytes != 0) {
            ranges[range_count++] = watch::Range{address, address + bytes};
        }
    }
};

void read_pack(const void* variant_pack, format::Device device, Outputs& outputs) noexcept {
    const auto& pack = *static_cast<const VariantPackStart*>(variant_pack);
    for (std::uint64_t index = 0; index < pack.out_tensors.count(); ++index) {
        const Tensor& tensor = pack.out_tensors.elements()[index];
        outputs.add(reinterpret_cast<std::uint64_t>(tensor.device_data), tensor.data_bytes, device);
    }
    outputs.add_range(reinterpret_cast<std::uint64_t>(pack.workspace), pack.workspace_bytes);
    outputs.add_range(reinterpret_cast<std::uint64_t>(pack.intermediate), pack.intermediate_bytes);
}

watch::Operator described(watch::Source source, Characters name, format::Device device) noexcept {
    return watch::Operator{source, name.data, name.bytes, 0, device};
}

}  // namespace

Characters watched_name_of(Characters folder, bool is_kernel) noexcept {
    const auto* const slash = static_cast<const char*>(std::memchr(folder.data, '/', folder.bytes));
    if (slash == nullptr) {
        return folder;
    }
    Characters name{slash + 1, folder.bytes - static_cast<std::size_t>(slash + 1 - folder.data)};
    while (is_kernel && name.bytes > 0 && name.data[--name.bytes] != '/') {
    }
    return name;
}

void watch_operator_begins(Characters folder, const void* variant_pack, format::Device device) noexcept {
    Outputs outputs;
    read_pack(variant_pack, device, outputs);
    watch::Writes writes;
    writes.ranges = outputs.ranges;
    writes.count = outputs.range_count;
    if (watch::concerns_device()) {
        watch::synchronize_devices();
    }
    watch::operator_begins(described(watch::Source::kAtb, watched_name_of(folder, false), device), writes);
}

void watch_operator_ends(Characters folder, const void* variant_pack, format::Device device) noexcept {
    Outputs outputs;
    read_pack(variant_pack, device, outputs);
    if (watch::concerns_device()) {
        watch::synchronize_devices();
    }
    watch::operator_ends(described(watch::Source::kAtb, watched_name_of(folder, false), device), watch::Writes{},
                         outputs.list, outputs.count);
}

void watch_kernel(Characters folder, const void* inputs, const void* outputs_of_launch,
                  format::Device device) noexcept {
    const bool is_before = kernel_place_of(folder).is_before;
    Outputs outputs;
    const MkiLayout* const layout =
        inputs != nullptr && outputs_of_launch != nullptr ? mki_layout_of(inputs, outputs_of_launch) : nullptr;
    if (layout != nullptr) {
        const auto* const first = static_cast<const char*>(outputs_of_launch);
        std::uint64_t count = 0;
        std::memcpy(&count, first + layout->vector_count, sizeof(count));
        for (std::uint64_t index = 0; index < count && index < MkiLayout::kMostTensors; ++index) {
            std::uint64_t address = 0;
            std::uint64_t bytes = 0;
            std::memcpy(&address, first + index * layout->tensor_bytes + layout->data, sizeof(address));
            std::memcpy(&bytes, first + index * layout->tensor_bytes + layout->data_bytes, sizeof(bytes));
            outputs.add(address, bytes, device);
        }
    }
    if (watch::concerns_device()) {
        watch::synchronize_devices();
    }
    const watch::Operator kernel = described(watch::Source::kAtbKernel, watched_name_of(folder, true), device);
    watch::Writes writes;
    writes.ranges = outputs.ranges;
    writes.count = outputs.range_count;
    writes.are_known = layout != nullptr;
    if (is_before) {
        watch::operator_begins(kernel, writes);
    } else {
        watch::operator_ends(kernel, writes, outputs.list, outputs.count);
    }
}

}  // namespace msmemscope::atb
