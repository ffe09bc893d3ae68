#include "core/observe/container_looks.h"

#include <time.h>

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
    if (process_state == nullptr) {
        return;
    }
    process_state->container_look_ns.store(0);
    // The interpreter may end when this returns. Whoever asks takes next to no time; a thread that is held up must not
    // hold up the program for long.
    constexpr int kMostWaits = 100;
    for (int wait = 0; process_state->asking_for_look.load() != 0 && wait < kMostWaits; ++wait) {
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

void ask_if_due(std::uint64_t now_ns) noexcept {
    std::atomic<std::uint64_t>& due_ns = process_state->container_look_ns;
    std::uint64_t due = due_ns.load(std::memory_order_acquire);
    if (due == 0 || now_ns < due) {
        return;
    }
    process_state->asking_for_look.fetch_add(1);
    std::uint64_t none = 0;
    if (due_ns.compare_exchange_strong(due, 0) && !awaited.load(std::memory_order_relaxed)()) {
        due_ns.compare_exchange_strong(none, due);  // unless another one is awaited by now
    }
    process_state->asking_for_look.fetch_sub(1);
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
