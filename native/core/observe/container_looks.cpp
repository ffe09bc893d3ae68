#include "core/observe/container_looks.h"

#include <atomic>

#include "core/writer/append.h"
#include "core/writer/attributes.h"
#include "core/writer/process_state.h"

namespace msmemscope {
namespace container_looks {
namespace {

std::atomic<bool (*)() noexcept> awaited{nullptr};

}  // namespace

void await(std::uint64_t delay_ns, bool (*ask)() noexcept) noexcept {
    awaited.store(ask, std::memory_order_relaxed);
    if (process_state != nullptr) {
        process_state->container_look_ns.store(clock_ns() + delay_ns, std::memory_order_release);
    }
}

void await_no_more() noexcept {
    if (process_state != nullptr) {
        process_state->container_look_ns.store(0, std::memory_order_release);
    }
}

bool is_due(std::uint64_t now_ns) noexcept {
    const std::uint64_t due = process_state->container_look_ns.load(std::memory_order_acquire);
    return due != 0 && now_ns >= due;
}

void ask_if_due(std::uint64_t now_ns) noexcept {
    std::atomic<std::uint64_t>& due_ns = process_state->container_look_ns;
    std::uint64_t due = due_ns.load(std::memory_order_acquire);
    if (due == 0 || now_ns < due) {
        return;
    }
    // Behind the asking another look may be awaited, or none any more: that stays.
    if (awaited.load(std::memory_order_relaxed)()) {
        due_ns.compare_exchange_strong(due, 0, std::memory_order_acq_rel);
    }
}

void ask_now() noexcept {
    std::atomic<std::uint64_t>& due_ns = process_state->container_look_ns;
    std::uint64_t due = due_ns.load(std::memory_order_relaxed);
    while (due != 0 && !due_ns.compare_exchange_weak(due, 1, std::memory_order_relaxed)) {
    }
}

bool note(const Container& container) noexcept {
    // A container alone is not worth a log.
    if (process_state == nullptr || process_state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        return false;
    }
    const RecordingScope scope(false);
    if (!scope || !recorder::is_collecting()) {
        return false;
    }
    using format::AttributeKey;
    Event event{format::EventKind::kContainer};
    event.address = container.address;
    event.size = static_cast<std::int64_t>(container.entries);
    event.extra = container.bytes;
    event.name_id = recorder::intern_string(scope, container.chain, std::strlen(container.chain));
    event.attribute_id = Attributes(scope)
                             .text(AttributeKey::kContainerType, container.container_type)
                             .text(AttributeKey::kEntryType, container.entry_type)
                             .number(AttributeKey::kFirstEntries, container.first_entries)
                             .number(AttributeKey::kFirstSequence, container.first_sequence)
                             .id();
    recorder::append(scope, event);
    return true;
}

}  // namespace container_looks
}  // namespace msmemscope
