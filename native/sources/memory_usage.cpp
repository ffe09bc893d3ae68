#include "sources/memory_usage.h"

namespace msmemscope {
namespace {

// Whether these are other figures than the last ones.
bool replace(WrittenUsage& last, std::uint64_t epoch, std::uint64_t device, std::uint64_t process) noexcept {
    const bool same_epoch = last.epoch.exchange(epoch, std::memory_order_relaxed) == epoch;
    const bool same_device = last.device_bytes.exchange(device, std::memory_order_relaxed) == device;
    const bool same_process = last.process_bytes.exchange(process, std::memory_order_relaxed) == process;
    return !same_epoch || !same_device || !same_process;
}

}  // namespace

void append_usage(const RecordingScope& scope, format::Device device, WrittenUsage& last, std::uint64_t device_bytes,
                  std::uint64_t process_bytes, const RecordPlace& place) noexcept {
    if ((device_bytes == kUnknownUsage && process_bytes == kUnknownUsage) ||
        !replace(last, recorder::epoch(), device_bytes, process_bytes)) {
        return;
    }
    Event event{format::EventKind::kDeviceUsage};
    event.device = device;
    event.size = static_cast<std::int64_t>(device_bytes);
    event.extra = process_bytes;
    event.timestamp_ns = place.timestamp_ns;
    if (place.sequence != 0) {
        recorder::append_reserved(scope, event, place.sequence);
    } else {
        recorder::append(scope, event);
    }
}

}  // namespace msmemscope
