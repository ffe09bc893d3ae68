#include "sources/ascend/atb/events.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/writer/attributes.h"
#include "core/writer/hash.h"
#include "core/writer/recorder.h"
#include "sources/ascend/acl/acl.h"
#include "sources/ascend/atb/enum_names.h"
#include "sources/ascend/atb/layouts.h"
#include "sources/ascend/atb/path_budget.h"
#include "sources/ascend/atb/watching.h"
#include "sources/ascend/npu.h"
#include "watch/watch.h"

namespace msmemscope::atb {
namespace {

using format::EventKind;
using format::Pool;

using Key = format::AttributeKey;

constexpr std::size_t kLongestName = 254;
constexpr std::size_t kMostPathBytes = 763;
constexpr std::size_t kMostShapeBytes = 512;
// No dtype and no format has a larger value.
constexpr std::int32_t kLargestEnum = 255;

bool is_recorded(format::Device device) noexcept {
    return device == format::kDeviceNone || recorder::settings().observes(device);
}

// kDeviceNone if the thread has none.
format::Device current_device() noexcept { return npu(acl::current_device()); }

// A tensor, whichever library's it is.
struct Access {
    EventKind kind;
    std::uint64_t address;
    std::uint64_t bytes;
    const char* dtype;
    const char* format;
    const std::int64_t* dims;
    std::uint64_t dim_count;
};

// Of the innermost operator on this thread.
__attribute__((tls_model("initial-exec"))) __thread OperatorBuffers running_buffers;

constexpr Pool kPools[] = {Pool::kAtb, Pool::kPta, Pool::kPtaWorkspace};

// The block that begins at `start`, if it holds the address.
std::uint64_t block_from(std::uint64_t start, std::uint64_t address) noexcept {
    for (const Pool pool : kPools) {
        LiveBlock block{};
        if (recorder::find_live_block(pool, start, block) && address - start < block.size_bytes) {
            return block.sequence;
        }
    }
    return 0;
}

// The block that holds the address. It may begin at the address, in ATB's own memory or in a framework's. Or it is a
// block that the running operator was given to divide.
std::uint64_t block_of(std::uint64_t address) noexcept {
    std::uint64_t sequence = block_from(address, address);
    const OperatorBuffers& buffers = running_buffers;
    if (sequence == 0 && address - buffers.intermediate < buffers.intermediate_bytes) {
        sequence = block_from(buffers.intermediate, address);
    }
    // The intermediate buffer may be a part of the workspace.
    if (sequence == 0 && address >= buffers.workspace &&
        address - buffers.workspace < buffers.workspace_bytes + buffers.intermediate_bytes) {
        sequence = block_from(buffers.workspace, address);
    }
    return sequence;
}

void write_access(const RecordingScope& scope, const Access& access, format::Device device,
                  std::uint32_t name_id) noexcept {
    if (access.address == 0) {
        return;  // ATB's way to leave a tensor out
    }
    char shape[kMostShapeBytes];
    TextWriter text(shape, sizeof(shape) - 1);
    text.text("[");
    for (std::uint64_t index = 0; index < access.dim_count; ++index) {
        text.number(access.dims[index]).text(",");
    }
    shape[text.bytes()] = ']';
    Event event{access.kind};
    event.pool = Pool::kAtb;
    event.device = device;
    event.address = access.address;
    event.size = static_cast<std::int64_t>(access.bytes);
    event.name_id = name_id;
    event.attribute_id = Attributes(scope)
                             .text(Key::kDtype, access.dtype)
                             .text(Key::kFormat, access.format)
                             .text(Key::kShape, shape, text.bytes() + 1)
                             .id();
    event.extra = block_of(access.address);
    recorder::append(scope, event);
}

void write_tensors(const RecordingScope& scope, const SmallVector<Tensor>& tensors, EventKind kind,
                   format::Device device, std::uint32_t name_id) noexcept {
    const Tensor* const elements = tensors.elements();
    for (std::uint64_t index = 0; index < tensors.count(); ++index) {
        const Tensor& tensor = elements[index];
        const TensorDescription& description = tensor.description;
        const std::uint64_t dim_count = description.shape.count < Dims::kMost ? description.shape.count : Dims::kMost;
        write_access(scope,
                     Access{kind, reinterpret_cast<std::uint64_t>(tensor.device_data), tensor.data_bytes,
                            acl_dtype_name(description.dtype), acl_format_name(description.format),
                            description.shape.dims, dim_count},
                     device, name_id);
    }
}

void write_pack(const RecordingScope& scope, const void* variant_pack, format::Device device,
                std::uint32_t name_id) noexcept {
    const auto& pack = *static_cast<const VariantPackStart*>(variant_pack);
    write_tensors(scope, pack.in_tensors, EventKind::kAccessUnknown, device, name_id);
    write_tensors(scope, pack.out_tensors, EventKind::kAccessWrite, device, name_id);
}

template <typename Value>
Value read_at(const void* start, std::size_t offset) noexcept {
    Value value;
    std::memcpy(&value, static_cast<const char*>(start) + offset, sizeof(value));
    return value;
}

void write_mki_tensors(const RecordingScope& scope, const void* tensors, const MkiLayout& layout, EventKind kind,
                       format::Device device, std::uint32_t name_id) noexcept {
    const auto count = read_at<std::uint64_t>(tensors, layout.vector_count);
    for (std::uint64_t index = 0; index < count && index < MkiLayout::kMostTensors; ++index) {
        const char* const tensor = static_cast<const char*>(tensors) + index * layout.tensor_bytes;
        const auto& description = *reinterpret_cast<const MkiTensorDescription*>(tensor);
        const MkiDims& shape = description.shape;
        write_access(
            scope,
            Access{kind, read_at<std::uint64_t>(tensor, layout.data), read_at<std::uint64_t>(tensor, layout.data_bytes),
                   mki_dtype_name(description.dtype), mki_format_name(description.format), shape.dims,
                   shape.count < MkiDims::kMost ? shape.count : MkiDims::kMost},
            device, name_id);
    }
}

void write_event(const RecordingScope& scope, EventKind kind, format::Device device, std::uint32_t name_id,
                 std::uint32_t attribute_id) noexcept {
    Event event{kind};
    event.device = device;
    event.name_id = name_id;
    event.attribute_id = attribute_id;
    recorder::append(scope, event);
}

PathBudget path_budget;
enum class Paths : std::uint8_t { kRecorded, kLeftOut, kLeftOutAndTold };
std::atomic<Paths> paths{Paths::kRecorded};

// Whether attributes with a path may be recorded; few enough have been so far. hash: of all of them.
bool admits_path(std::uint64_t hash) noexcept {
    if (path_budget.admits(hash, recorder::epoch())) {
        return true;
    }
    Paths expected = Paths::kRecorded;
    paths.compare_exchange_strong(expected, Paths::kLeftOut, std::memory_order_relaxed);
    return false;
}

// Not while a scope is open, where nothing else can be recorded.
void report_paths() noexcept {
    Paths expected = Paths::kLeftOut;
    if (__builtin_expect(paths.load(std::memory_order_relaxed) == expected, 0) &&
        paths.compare_exchange_strong(expected, Paths::kLeftOutAndTold, std::memory_order_relaxed)) {
        recorder::note_fact("unobserved.atb_paths", "of operators and kernels after the first half million");
    }
}

Characters cut(Characters path) noexcept { return {path.data, std::min(path.bytes, kMostPathBytes)}; }

std::uint32_t operator_attributes(const RecordingScope& scope, Characters folder, const void* variant_pack) noexcept {
    const auto& pack = *static_cast<const VariantPackStart*>(variant_pack);
    const auto workspace = reinterpret_cast<std::uint64_t>(pack.workspace);
    const std::uint64_t workspace_bytes = pack.workspace_bytes + pack.intermediate_bytes;
    const Characters path = cut(folder);
    const std::uint64_t numbers[] = {workspace, workspace_bytes};
    if (!admits_path(hash_bytes(numbers, sizeof(numbers), hash_bytes(path.data, path.bytes, 0)))) {
        return 0;
    }
    return Attributes(scope)
        .text(Key::kPath, path.data, path.bytes)
        .number(Key::kWorkspaceAddress, workspace)
        .number(Key::kWorkspaceBytes, workspace_bytes)
        .id();
}

bool ends_with(Characters text, Characters end) noexcept {
    return text.bytes >= end.bytes && std::memcmp(text.data + text.bytes - end.bytes, end.data, end.bytes) == 0;
}

// How many tensors a vector of the layout has; 0 if it is not one.
std::uint64_t plausible_count(const void* tensors, const MkiLayout& layout) noexcept {
    const auto count = read_at<std::uint64_t>(tensors, layout.vector_count);
    if (count > MkiLayout::kMostTensors) {
        return 0;
    }
    for (std::uint64_t index = 0; index < count; ++index) {
        const char* const tensor = static_cast<const char*>(tensors) + index * layout.tensor_bytes;
        const auto& description = *reinterpret_cast<const MkiTensorDescription*>(tensor);
        if (description.shape.count > MkiDims::kMost || description.dtype < -1 || description.dtype > kLargestEnum ||
            description.format < -1 || description.format > kLargestEnum) {
            return 0;
        }
    }
    return count;
}

}  // namespace

const MkiLayout* mki_layout_of(const void* inputs, const void* outputs) noexcept {
    // Both lie in the launch parameters, usually one behind the other: then their distance tells the size.
    const char* first = static_cast<const char*>(inputs);
    const char* second = static_cast<const char*>(outputs);
    if (second < first) {
        std::swap(first, second);
    }
    const MkiLayout* const layouts[] = {&kMkiWithStrides, &kMkiWithoutStrides};
    for (const MkiLayout* layout : layouts) {
        if (static_cast<std::size_t>(second - first) == layout->vector_count + sizeof(std::uint64_t)) {
            return layout;
        }
    }
    // Otherwise the content of the first one tells it. In the second one we might read beyond its end.
    const MkiLayout* found = nullptr;
    std::uint64_t most = 0;
    for (const MkiLayout* layout : layouts) {
        const std::uint64_t count = plausible_count(first, *layout);
        if (count > most) {
            most = count;
            found = layout;
        }
    }
    return found;
}

bool collects_operators() noexcept {
    return recorder::is_selected(kSelectLaunch) && recorder::settings().collect_operators;
}

bool collects_kernels() noexcept {
    return recorder::is_selected(kSelectLaunch) && recorder::settings().collect_kernels;
}

bool collects_accesses() noexcept { return recorder::is_selected(kSelectAccess); }

format::Device device_of_operator() noexcept { return current_device(); }

OperatorCall record_operator_start(const OperatorTexts& texts, const void* variant_pack) noexcept {
    report_paths();
    OperatorCall call{};
    call.device = current_device();
    if (!is_recorded(call.device)) {
        return call;
    }
    const RecordingScope scope(true);
    if (!scope) {
        return call;
    }
    call.written = true;
    call.outer = running_buffers;
    const auto& pack = *static_cast<const VariantPackStart*>(variant_pack);
    running_buffers = OperatorBuffers{reinterpret_cast<std::uint64_t>(pack.workspace), pack.workspace_bytes,
                                      reinterpret_cast<std::uint64_t>(pack.intermediate), pack.intermediate_bytes};
    call.epoch = recorder::epoch();
    call.name_id = recorder::intern_string(scope, texts.name, std::strlen(texts.name));
    call.attribute_id = operator_attributes(scope, texts.folder, variant_pack);
    if (collects_operators()) {
        write_event(scope, EventKind::kAtbStart, call.device, call.name_id, call.attribute_id);
    }
    if (collects_accesses()) {
        write_pack(scope, variant_pack, call.device, call.name_id);
    }
    return call;
}

void record_operator_end(const OperatorCall& call, const void* variant_pack) noexcept {
    const RecordingScope scope(true);
    if (scope && call.epoch == recorder::epoch()) {
        if (collects_operators()) {
            write_event(scope, EventKind::kAtbEnd, call.device, call.name_id, call.attribute_id);
        }
        if (collects_accesses()) {
            write_pack(scope, variant_pack, call.device, call.name_id);
        }
    }
    running_buffers = call.outer;
}

KernelPlace kernel_place_of(Characters folder) noexcept {
    constexpr Characters kBefore{"/before", 7};
    constexpr Characters kAfter{"/after", 6};
    const bool is_before = ends_with(folder, kBefore);
    if (!is_before && !ends_with(folder, kAfter)) {
        return KernelPlace{Characters{"", 0}, false};
    }
    const std::size_t end = folder.bytes - (is_before ? kBefore.bytes : kAfter.bytes);
    std::size_t begin = end;
    while (begin > 0 && folder.data[begin - 1] != '/') {
        --begin;
    }
    return KernelPlace{Characters{folder.data + begin, end - begin}, is_before};
}

void record_kernel(Characters folder, const void* input_tensors, const void* output_tensors) noexcept {
    report_paths();
    const KernelPlace place = kernel_place_of(folder);
    const format::Device device = current_device();
    if (place.name.bytes == 0 || !is_recorded(device)) {
        return;
    }
    if (__builtin_expect(watch::watches_kernels(), 0)) {
        watch_kernel(folder, input_tensors, output_tensors, device);
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    char name[kLongestName + 1];
    const std::uint32_t name_id = recorder::intern_string(scope, name, copy_text(place.name, name, sizeof(name)));
    if (collects_kernels()) {
        const Characters path = cut(folder);
        const std::uint32_t attribute_id = admits_path(hash_bytes(path.data, path.bytes, 0))
                                               ? Attributes(scope).text(Key::kPath, path.data, path.bytes).id()
                                               : 0;
        write_event(scope, place.is_before ? EventKind::kKernelStart : EventKind::kKernelEnd, device, name_id,
                    attribute_id);
    }
    const MkiLayout* const layout = collects_accesses() && input_tensors != nullptr && output_tensors != nullptr
                                        ? mki_layout_of(input_tensors, output_tensors)
                                        : nullptr;
    if (layout != nullptr) {
        write_mki_tensors(scope, input_tensors, *layout, EventKind::kAccessUnknown, device, name_id);
        write_mki_tensors(scope, output_tensors, *layout, EventKind::kAccessWrite, device, name_id);
    }
}

}  // namespace msmemscope::atb
