#include "sources/driver_memory.h"

#include <atomic>

#include "core/writer/keep_errno.h"
#include "core/writer/live_blocks.h"
#include "core/writer/process_memory.h"
#include "core/writer/texts.h"
#include "sources/pinned_memory.h"
#include "sources/torch_cpu/host_memory.h"

namespace msmemscope {

__attribute__((tls_model("initial-exec"))) __thread unsigned DriverCall::under_way = 0;

namespace {

__attribute__((tls_model("initial-exec"))) __thread std::uint64_t new_pinned = 0;

std::uint64_t number_of(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

bool observes_pinned() noexcept {
    const DeviceSelection& devices = recorder::settings().devices;
    return devices.cpu || devices.kinds != 0;
}

std::uint32_t pinned_attributes() noexcept {
    static std::atomic<std::uint32_t> known{0};
    std::uint32_t number = known.load(std::memory_order_relaxed);
    if (number == 0) {
        const format::Attribute pinned{format::AttributeKey::kIsPinned, format::ValueKind::kNumber, 0, 1};
        number = texts::number_of_attributes(&pinned, 1);
        known.store(number, std::memory_order_relaxed);
    }
    return number;
}

}  // namespace

namespace driver_memory {

void note_emulated(const void* address) noexcept {
    static std::atomic<bool> is_asked{false};
    if (is_asked.load(std::memory_order_relaxed) || is_asked.exchange(true, std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    if (is_anonymous(number_of(address))) {
        recorder::note_fact("device_memory", "emulated");
    }
}

void note_pinned(const void* address, std::uint64_t bytes, const CallSite& site) noexcept {
    if (!observes_pinned()) {
        return;
    }
    const KeepErrno keep_errno;
    new_pinned = number_of(address);
    if (recorder::is_selected(kSelectAlloc)) {
        torch_cpu::record_host_usage();
    }
    recorder::observe_allocation(format::Pool::kHal, format::kDeviceCpu, number_of(address), bytes, site,
                                 pinned_attributes());
}

void note_registered(const void* address, std::uint64_t bytes, const CallSite& site) noexcept {
    LiveBlock block{};
    if (!recorder::find_live_block(format::Pool::kHost, number_of(address), block) &&
        !recorder::find_live_block(format::Pool::kHal, number_of(address), block)) {
        note_pinned(address, bytes, site);
    }
}

void End::finish(bool has_succeeded, void (*record_usage)(format::Device device, const RecordPlace& place)) noexcept {
    if (!is_known_) {
        return;
    }
    const KeepErrno keep_errno;
    if (!has_succeeded) {
        recorder::undo_free(ending_);
        return;
    }
    if (ending_.number != 0 && recorder::is_selected(kSelectFree)) {
        const RecordPlace place{ending_.number, ending_.event.timestamp_ns};
        if (ending_.block.device == format::kDeviceCpu) {
            torch_cpu::record_host_usage(place);
        } else {
            record_usage(ending_.block.device, place);
        }
    }
    recorder::finish_free(ending_);
}

}  // namespace driver_memory

namespace pinned_memory {

std::uint64_t take_new() noexcept {
    const std::uint64_t address = new_pinned;
    new_pinned = 0;
    return address;
}

void note_requested(std::uint64_t address, std::uint64_t bytes) noexcept {
    recorder::note_requested(format::Pool::kHal, address, bytes);
}

}  // namespace pinned_memory
}  // namespace msmemscope
