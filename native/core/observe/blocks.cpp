#include "core/observe/blocks.h"

#include "core/observe/container_looks.h"
#include "core/stacks/native_stack.h"
#include "core/stacks/python_stack.h"
#include "core/writer/append.h"
#include "core/writer/attributes.h"
#include "core/writer/steps.h"
#include "core/writer/texts.h"

namespace msmemscope::recorder {
namespace {

// Of stacks that are taken whatever the settings say.
constexpr std::uint32_t kDepthOnRequest = 50;

std::atomic<const BlockListener*> block_listener{nullptr};

__attribute__((noinline)) void count_lost_event(ProcessState& state) noexcept {
    if ((current_settings.events & kSelectAlloc) != 0) {
        count(state.dropped.failure, &format::ProcessHeader::dropped_failure);
    }
}

inline void take_stacks(const RecordingScope& scope, Event& event, const CallSite& site, bool python) noexcept {
    if (python) {
        event.python_stack_id = take_python_stack(scope, current_settings.python_stack_depth);
    }
    if (current_settings.native_stack_depth != 0) {
        event.native_stack_id = take_native_stack(scope, current_settings.native_stack_depth, site);
    }
}

// Whether events of blocks of a pool may have numbers of the thread's own lease. Only host memory may, because nobody
// puts its events in an order. Allocators of devices have a lock, and say in which order they do things. Accesses and
// listeners tell of the same blocks from other threads, so neither may be active.
__attribute__((always_inline)) inline bool may_lease(const ProcessState& state, format::Pool pool) noexcept {
    return pool == format::Pool::kHost && (state.collecting.load(std::memory_order_relaxed) & kSelectAccess) == 0 &&
           block_listener.load(std::memory_order_relaxed) == nullptr;
}

// Records an allocation. Returns its number, 0 if the event was dropped (and counted).
__attribute__((always_inline)) inline std::uint64_t append_allocation(ProcessState& state, Event& event) noexcept {
    if (!may_lease(state, event.pool) || this_thread(state) == nullptr) {
        return append_here(state, event);
    }
    event.timestamp_ns = clock_ns();
    const auto latest_at_address = [&]() noexcept {
        return state.live_blocks.latest_number_at(event.pool, event.address);
    };
    const std::uint64_t number = take_leased_number(state, event.timestamp_ns, latest_at_address);
    return write_numbered(state, event, number) ? number : 0;
}

// Collection may have begun after it was looked at and before the block could be found: then nobody else records it.
__attribute__((noinline)) void record_if_collection_began(const RecordingScope& scope, ProcessState& state,
                                                          LiveBlock block) noexcept {
    __sync_synchronize();
    if ((state.collecting.load(std::memory_order_relaxed) & kSelectAlloc) != 0 &&
        current_settings.observes(block.device) && state.live_blocks.claim_one(block, take_numbers(state, 1))) {
        write_existing(scope, state, block);
    }
}

}  // namespace

void set_block_listener(const BlockListener* listener) noexcept {
    block_listener.store(listener, std::memory_order_release);
}

std::uint64_t append_with_stacks(const RecordingScope& scope, Event event, const CallSite& site) noexcept {
    event.python_stack_id = take_python_stack(scope, kDepthOnRequest);
    event.native_stack_id = take_native_stack(scope, kDepthOnRequest, site);
    // A dump has rows of its own behind an OOM, which need numbers of theirs.
    const std::uint64_t rows_behind = event.kind == format::EventKind::kOom ? 2 * event.extra : 0;
    return append_here(*process_state, event, 1 + rows_behind);
}

void observe_allocation(format::Pool pool, format::Device device, std::uint64_t address, std::uint64_t size_bytes,
                        const CallSite& site, std::uint32_t attributes) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    ProcessState& state = *process_state;
    if (state.failed.load(std::memory_order_relaxed)) {
        count_lost_event(state);
        return;
    }
    LiveBlock block{address, size_bytes, 0, pool, device, attributes, thread_handle.labels};
    if (is_selected(kSelectAlloc)) {
        Event event{format::EventKind::kMalloc};
        event.pool = pool;
        event.device = device;
        event.flags = pass_flags();
        event.address = address;
        event.size = static_cast<std::int64_t>(size_bytes);
        event.name_id = thread_handle.operator_id;
        event.attribute_id = texts::id_in_log(scope, attributes);
        event.extra = texts::id_in_log(scope, thread_handle.labels);
        take_stacks(scope, event, site, current_settings.python_stack_depth != 0);
        block.sequence = append_allocation(state, event);
    }
    if (!state.live_blocks.insert(block)) {
        count(state.dropped.untracked_blocks, &format::ProcessHeader::untracked_blocks);
    } else if (block.sequence == 0) {
        record_if_collection_began(scope, state, block);
    }
    const BlockListener* const listener = block_listener.load(std::memory_order_acquire);
    if (__builtin_expect(listener != nullptr, 0)) {
        listener->block_begins(block);
    }
}

bool follow_older_block(format::Pool pool, format::Device device, std::uint64_t address,
                        std::uint64_t size_bytes) noexcept {
    LiveBlock block{};
    const ProcessState* const state = process_state;
    if (state == nullptr || is_selected(kSelectAlloc) || state->live_blocks.find(pool, address, block)) {
        return false;
    }
    observe_allocation(pool, device, address, size_bytes, CallSite{});
    return true;
}

namespace {

// Takes a block out of those that are alive. False: it is not a block of this pool, or older than our observation.
template <typename EndNumber>
__attribute__((always_inline)) inline bool take_block(format::Pool pool, std::uint64_t address, LiveBlock& block,
                                                      EndNumber end_number) noexcept {
    if (process_state == nullptr || !process_state->live_blocks.remove(pool, address, block, end_number)) {
        return false;
    }
    container_looks::ask_at_some(block.sequence);
    const BlockListener* const listener = block_listener.load(std::memory_order_acquire);
    if (__builtin_expect(listener != nullptr, 0)) {
        listener->block_ends(block);
    }
    return true;
}

// Whether the end of a block is to be recorded; what is lost is counted.
__attribute__((always_inline)) inline bool can_record_end(const RecordingScope& scope,
                                                          const LiveBlock& block) noexcept {
    if (block.sequence == 0) {
        return false;  // never recorded
    }
    ProcessState& state = *process_state;
    if (!scope) {
        count(state.dropped.reentrant, &format::ProcessHeader::dropped_reentrant);
        return false;
    }
    if (state.failed.load(std::memory_order_relaxed)) {
        count_lost_event(state);
        return false;
    }
    return true;
}

// site: null if nobody told of the end of the block.
__attribute__((always_inline)) inline Event end_event(const RecordingScope& scope, const LiveBlock& block,
                                                      const CallSite* site) noexcept {
    Event event{format::EventKind::kFree};
    event.pool = block.pool;
    event.device = block.device;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.extra = block.sequence;
    if (site == nullptr) {
        event.flags = format::kFlagShadow;
    } else {
        event.flags = pass_flags();
        if (thread_handle.collects) {
            event.flags |= format::kFlagCollected;
        }
        event.name_id = thread_handle.operator_id;
        if (is_selected(kSelectFree)) {
            take_stacks(scope, event, *site, current_settings.write_python_stack);
        } else {
            event.flags |= format::kFlagShadow;
        }
    }
    return event;
}

__attribute__((always_inline)) inline void end_block(format::Pool pool, std::uint64_t address,
                                                     const CallSite* site) noexcept {
    const RecordingScope scope(false);
    LiveBlock block{};
    std::uint64_t number = 0;
    std::uint64_t now = 0;
    const auto leased_number = [&](const LiveBlock& found) noexcept {
        ProcessState& state = *process_state;
        if (may_lease(state, pool) && found.sequence != 0 && scope && this_thread(state) != nullptr) {
            now = clock_ns();
            number = take_leased_number(state, now, [&]() noexcept { return found.sequence; });
        }
        return number;
    };
    if (!take_block(pool, address, block, leased_number) || !can_record_end(scope, block)) {
        return;
    }
    Event event = end_event(scope, block, site);
    if (number == 0 || thread_handle.lease.next != number + 1) {  // or a listener has come, and recorded something
        append_here(*process_state, event);
    } else {
        event.timestamp_ns = now;
        write_numbered(*process_state, event, number);
    }
}

}  // namespace

void observe_free(format::Pool pool, std::uint64_t address, const CallSite& site) noexcept {
    end_block(pool, address, &site);
}

void observe_missed_free(format::Pool pool, std::uint64_t address) noexcept { end_block(pool, address, nullptr); }

bool begin_free(format::Pool pool, std::uint64_t address, const CallSite& site, EndingBlock& ending) noexcept {
    const RecordingScope scope(false);
    if (!take_block(pool, address, ending.block, LiveBlocks::no_number)) {
        return false;
    }
    if (can_record_end(scope, ending.block)) {
        ending.event = end_event(scope, ending.block, &site);
        ending.event.timestamp_ns = clock_ns();
        ending.number = take_numbers(*process_state, 2);
    }
    return true;
}

void finish_free(const EndingBlock& ending) noexcept {
    const RecordingScope scope(true);
    if (scope && ending.number != 0) {
        append_reserved(scope, ending.event, ending.number + 1);
    }
}

void undo_free(const EndingBlock& ending) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    ProcessState& state = *process_state;
    const LiveBlock& block = ending.block;
    if (!state.live_blocks.insert(block)) {
        count(state.dropped.untracked_blocks, &format::ProcessHeader::untracked_blocks);
    } else if (block.sequence == 0) {
        record_if_collection_began(scope, state, block);
    }
    const BlockListener* const listener = block_listener.load(std::memory_order_acquire);
    if (__builtin_expect(listener != nullptr, 0)) {
        listener->block_begins(block);
    }
}

bool label_block(std::uint64_t address, std::uint32_t labels) noexcept {
    const RecordingScope scope(false);
    LiveBlock block{};
    if (!scope || labels == 0 || !find_block_around(address, block)) {
        return false;
    }
    ProcessState& state = *process_state;
    if (block.labels == labels) {
        return true;
    }
    if (block.sequence == 0) {
        state.live_blocks.set_labels(block, texts::joined(block.labels, labels));
        return true;
    }
    state.live_blocks.set_labels(block, steps::are_undecided() ? texts::joined(block.labels, labels) : labels);
    Event event{format::EventKind::kOwner};
    event.pool = block.pool;
    event.device = block.device;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.attribute_id = texts::id_in_log(scope, labels);
    event.extra = block.sequence;
    append_here(state, event);
    return true;
}

bool note_holder(std::uint64_t address, const char* chain, std::size_t bytes, std::uint64_t viewed_bytes) noexcept {
    const RecordingScope scope(false);
    LiveBlock block{};
    if (!scope || !find_block_around(address, block) || block.sequence == 0) {
        return false;
    }
    Event event{format::EventKind::kHolder};
    event.pool = block.pool;
    event.device = block.device;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(block.size_bytes);
    event.name_id = intern_string(scope, chain, bytes);
    if (viewed_bytes != 0) {
        event.attribute_id = Attributes(scope).number(format::AttributeKey::kViewedBytes, viewed_bytes).id();
    }
    event.extra = block.sequence;
    append_here(*process_state, event);
    return true;
}

void note_requested(format::Pool pool, std::uint64_t address, std::uint64_t bytes) noexcept {
    const RecordingScope scope(is_selected(kSelectAlloc));
    LiveBlock block{};
    if (!scope || !is_selected(kSelectAlloc) || !find_live_block(pool, address, block) || block.sequence == 0) {
        return;
    }
    Event event{format::EventKind::kRequested};
    event.pool = block.pool;
    event.device = block.device;
    event.address = block.address;
    event.size = static_cast<std::int64_t>(bytes);
    event.extra = block.sequence;
    append_here(*process_state, event);
}

void note_mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t bytes) noexcept {
    const RecordingScope scope(is_selected(kSelectAlloc));
    LiveBlock block{};
    // Memory of devices that are left out is no block.
    if (!scope || !is_selected(kSelectAlloc) || !find_live_block(format::Pool::kHal, handle, block)) {
        return;
    }
    Event event{format::EventKind::kMapped};
    event.pool = block.pool;
    event.device = block.device;
    event.address = address;
    event.size = static_cast<std::int64_t>(bytes);
    event.extra = block.sequence;
    append_here(*process_state, event);
}

void note_unmapped(std::uint64_t address) noexcept {
    const RecordingScope scope(is_selected(kSelectAlloc));
    if (!scope || !is_selected(kSelectAlloc)) {
        return;
    }
    Event event{format::EventKind::kUnmapped};
    event.pool = format::Pool::kHal;
    event.device = format::kDeviceNone;
    event.address = address;
    append_here(*process_state, event);
}

}  // namespace msmemscope::recorder
