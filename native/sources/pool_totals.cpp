#include "sources/pool_totals.h"

namespace msmemscope {

void PoolTotals::write(const RecordingScope& scope, int index, std::int64_t bytes) noexcept {
    Event event{format::EventKind::kReserved};
    event.pool = pool_;
    event.device = format::device_of(kind_, index);
    event.size = bytes;
    if (recorder::append(scope, event) != 0) {
        written_[index].store(bytes, std::memory_order_relaxed);
        written_epoch_[index].store(recorder::epoch(), std::memory_order_relaxed);
    }
}

void PoolTotals::report(int index) noexcept {
    const std::int64_t bytes = get(index);
    const std::int64_t written = written_[index].load(std::memory_order_relaxed);
    const bool is_known = written_epoch_[index].load(std::memory_order_relaxed) == recorder::epoch();
    if (bytes == (is_known ? written : 0) ||
        !(recorder::is_selected(kSelectAlloc) || recorder::is_selected(kSelectFree))) {
        return;
    }
    const RecordingScope scope(true);
    if (scope) {
        write(scope, index, bytes);
    }
}

void PoolTotals::write_again(const RecordingScope& scope) noexcept {
    for (int index = 0; index < format::kDevicesPerKind; ++index) {
        const std::int64_t bytes = get(index);
        const bool was_written = written_epoch_[index].load(std::memory_order_relaxed) == recorder::epoch();
        if ((bytes != 0 || was_written) && recorder::settings().observes(format::device_of(kind_, index))) {
            write(scope, index, bytes);
        }
    }
}

}  // namespace msmemscope
