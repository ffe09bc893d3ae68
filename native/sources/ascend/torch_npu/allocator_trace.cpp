#include "sources/ascend/torch_npu/allocator_trace.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "core/writer/texts.h"
#include "sources/ascend/acl/visible_devices.h"
#include "sources/ascend/mstx/pools.h"
#include "sources/ascend/npu.h"
#include "sources/ascend/torch_npu/allocator_object.h"

namespace msmemscope::allocator_trace {
namespace {

enum class Action : std::int32_t {
    kAlloc = 0,
    kFreeRequested = 1,
    kFreeCompleted = 2,
    kSegmentAlloc = 3,
    kSegmentFree = 4,
    kSegmentMap = 5,
    kSegmentUnmap = 6,
    kSnapshot = 7,
    kOutOfMemory = 8,
    kWorkspaceSnapshot = 9,
};

struct Entry {
    Action action;
    std::int32_t device;
    std::int64_t address;
    void* context[2];
    void* stream;
    std::int64_t size;
    std::uint64_t pool[2];
};
static_assert(sizeof(Entry) == 64 && offsetof(Entry, stream) == 32 && offsetof(Entry, pool) == 48);

enum class Trust : std::uint8_t { kUnattached, kNew, kChecked, kRefused };
std::atomic<Trust> trust{Trust::kUnattached};

// That many blocks are compared with what mstx is told.
constexpr std::uint32_t kComparisons = 64;
std::atomic<std::uint32_t> comparisons{0};
std::atomic<bool> is_noted{false};
// Whether blocks begin and end here, since mstx tells nothing of them.
std::atomic<bool> takes_all_blocks{false};

// The block that the tracker was told of last on this thread, and mstx was not yet.
struct Pending {
    std::uint64_t address;
    std::uint64_t bytes;
};
thread_local Pending pending{};
// The tracker may not have been there yet when the allocator handed out the first block that a thread tells mstx of.
std::atomic<bool> was_late{false};
thread_local bool was_told{false};

// Streams by number, in the order in which a device first had blocks of them; the first one is 1.
constexpr std::size_t kStreamDevices = 64;
constexpr std::uint32_t kMostStreams = 64;
std::atomic<void*> streams[kStreamDevices][kMostStreams];
std::atomic<std::uint32_t> stream_attributes[kMostStreams + 1];

// `allocated` is the block that this thread was handed out last, until mstx is told of it. `freeing` is the block that
// this thread is giving back, until mstx is told of its end. If the free completes before that, no other stream used
// the block, and no completion is recorded.
struct Allocated {
    std::uint64_t address;
    std::uint32_t stream;
};
thread_local Allocated allocated{};
thread_local std::uint64_t freeing{0};

// By the program's number of a device. Once an entry of its allocator was not recorded, the next ones mean nothing
// until its state is known.
enum class State : std::uint8_t { kKnown, kUnknown, kLeftOut };  // the last: and entries were left out, which is noted
std::atomic<State> states[format::kDevicesPerKind];

// Whether this thread takes a snapshot, to record the state or to compare it, and the moments that its allocators told
// meanwhile.
enum class Snapshot : std::uint8_t { kNone, kRecorded, kCompared };
thread_local Snapshot snapshot{Snapshot::kNone};
Moment moments[format::kDevicesPerKind];
std::size_t moment_count = 0;

void refuse(const char* why) noexcept {
    if (trust.exchange(Trust::kRefused, std::memory_order_relaxed) != Trust::kRefused) {
        recorder::note_fact("unobserved.allocator", why);
    }
}

// Notes once that the allocator is observed. Its entries must be recorded as it tells them, and the first must be
// right.
void note_observed() noexcept {
    if (recorder::is_selected(kSelectAllocator) && comparisons.load(std::memory_order_relaxed) != 0 &&
        !is_noted.exchange(true, std::memory_order_relaxed)) {
        recorder::note_fact("observed.allocator", "by its trace tracker");
    }
}

// 0 where there are more than we count.
std::uint32_t number_of_stream(std::int32_t device, void* stream) noexcept {
    if (device < 0 || static_cast<std::size_t>(device) >= kStreamDevices) {
        return 0;
    }
    std::uint32_t number = 0;
    for (std::atomic<void*>& known : streams[device]) {
        void* found = nullptr;
        ++number;
        if (known.load(std::memory_order_relaxed) == stream ||
            (known.compare_exchange_strong(found, stream, std::memory_order_relaxed) || found == stream)) {
            return number;
        }
    }
    return 0;
}

// The streams that used a freed block have got so far: its memory can be handed out again.
void note_completed(const Entry& entry) noexcept {
    const int device = acl::physical_device(entry.device);
    if (!recorder::is_selected(kSelectFree) || device < 0 || !observes_npu(device)) {
        return;
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Event event{format::EventKind::kFreeCompleted};
    event.pool = format::Pool::kPta;
    event.device = npu(device);
    event.address = static_cast<std::uint64_t>(entry.address);
    event.size = entry.size;
    recorder::append(scope, event);
}

// A block that mstx tells nothing of begins or ends, or the allocator has another amount of memory.
void take_block(const Entry& entry, const CallSite& site) noexcept {
    const int device = acl::physical_device(entry.device);
    if (device < 0) {
        return;
    }
    const auto address = static_cast<std::uint64_t>(entry.address);
    switch (entry.action) {
        case Action::kAlloc:
            if (observes_npu(device)) {
                recorder::observe_missed_free(format::Pool::kPta, address);
                recorder::observe_allocation(format::Pool::kPta, npu(device), address,
                                             static_cast<std::uint64_t>(entry.size), site,
                                             attributes_of_block(address));
            }
            return;
        case Action::kFreeRequested:
            recorder::observe_free(format::Pool::kPta, address, site);
            return;
        case Action::kSegmentAlloc:
        case Action::kSegmentMap:
            mstx::add_reserved(format::Pool::kPta, device, entry.size);
            return;
        case Action::kSegmentFree:
        case Action::kSegmentUnmap:
            mstx::add_reserved(format::Pool::kPta, device, -entry.size);
            return;
        default:
            return;
    }
}

// The part that is recorded of blocks whichever events were asked for.
void follow(const Entry& entry) noexcept {
    const auto address = static_cast<std::uint64_t>(entry.address);
    if (entry.action == Action::kAlloc) {
        allocated = {address, number_of_stream(entry.device, entry.stream)};
    } else if (entry.action == Action::kFreeRequested) {
        freeing = address;
    } else if (entry.action == Action::kFreeCompleted) {
        if (freeing == address) {
            freeing = 0;
        } else {
            note_completed(entry);
        }
    }
}

format::EventKind kind_of(Action action) noexcept {
    switch (action) {
        case Action::kAlloc:
            return format::EventKind::kAllocatorAlloc;
        case Action::kFreeRequested:
            return format::EventKind::kAllocatorFree;
        case Action::kFreeCompleted:
            return format::EventKind::kAllocatorFreeCompleted;
        case Action::kSegmentAlloc:
            return format::EventKind::kSegmentAlloc;
        case Action::kSegmentFree:
            return format::EventKind::kSegmentFree;
        case Action::kSegmentMap:
            return format::EventKind::kSegmentMap;
        case Action::kSegmentUnmap:
            return format::EventKind::kSegmentUnmap;
        case Action::kOutOfMemory:
            return format::EventKind::kAllocatorOom;
        default:
            return format::EventKind::kNone;
    }
}

// requested_bytes: -1 where it is no attribute.
std::uint32_t attributes_of(const RecordingScope& scope, const std::uint64_t (&pool)[2],
                            std::int64_t requested_bytes) noexcept {
    format::Attribute pairs[2];
    std::size_t count = 0;
    if ((pool[0] | pool[1]) != 0) {
        char text[48];
        const int length = std::snprintf(text, sizeof(text), "%llu/%llu", static_cast<unsigned long long>(pool[0]),
                                         static_cast<unsigned long long>(pool[1]));
        pairs[count++] = {format::AttributeKey::kPoolId, format::ValueKind::kString, 0,
                          recorder::intern_string(scope, text, static_cast<std::size_t>(length))};
    }
    if (requested_bytes >= 0) {
        pairs[count++] = {format::AttributeKey::kRequestedBytes, format::ValueKind::kNumber, 0,
                          static_cast<std::uint64_t>(requested_bytes)};
    }
    return count == 0 ? 0 : recorder::intern_attributes(scope, pairs, count);
}

// The allocator of the next device has made its part of the snapshot; its lock is still held, so that nothing of it
// comes between. All of these entries name device 0; the allocators take their turns in the order of the devices.
void note_moment(std::int64_t active_bytes) noexcept {
    if (moment_count == std::size(moments)) {
        return;
    }
    const auto number = static_cast<int>(moment_count);
    const int device = acl::physical_device(number);
    std::uint64_t sequence = 0;
    if (snapshot == Snapshot::kCompared) {
        mstx::set_reserved(format::Pool::kPta, device, 0);
    } else if ((device < 0 || recorder::settings().observes(npu(device))) &&
               states[number].exchange(State::kKnown, std::memory_order_relaxed) != State::kKnown) {
        sequence = recorder::next_sequence();
    }
    moments[moment_count++] = {number, sequence, static_cast<std::uint64_t>(active_bytes)};
}

// An entry is not recorded, as it is not asked for.
void miss(std::atomic<State>& state) noexcept {
    if (state.load(std::memory_order_relaxed) == State::kKnown) {
        state.store(State::kUnknown, std::memory_order_relaxed);
    }
}

// An entry is not recorded, as nobody knows what it changes.
void leave_out(std::atomic<State>& state, int device) noexcept {
    if (state.exchange(State::kLeftOut, std::memory_order_relaxed) != State::kLeftOut) {
        char text[48];
        std::snprintf(text, sizeof(text), "%d/%llu", device,
                      static_cast<unsigned long long>(recorder::next_sequence()));
        recorder::note_fact("allocator.left_out", text);
    }
}

// Called by the allocator with its lock held, with or without Python's: takes no lock, and calls nothing of torch.
void take(const Entry& entry) noexcept {
    const Trust trusted = trust.load(std::memory_order_relaxed);
    if (trusted == Trust::kRefused) {
        return;
    }
    if (trusted == Trust::kNew && entry.action == Action::kAlloc) {
        pending = {static_cast<std::uint64_t>(entry.address), static_cast<std::uint64_t>(entry.size)};
        was_told = true;
    }
    follow(entry);
    if (takes_all_blocks.load(std::memory_order_relaxed)) {
        take_block(entry, MSMEMSCOPE_CALL_SITE());
    }
    const format::EventKind kind = kind_of(entry.action);
    if (kind == format::EventKind::kNone) {
        if (entry.action == Action::kSnapshot) {
            if (snapshot != Snapshot::kNone) {
                note_moment(entry.size);
            }
        } else if (entry.action != Action::kWorkspaceSnapshot) {
            refuse("an entry of its trace tracker has an action that is not known");
        }
        return;
    }
    if (entry.device < 0 || entry.device >= format::kDevicesPerKind) {
        return;
    }
    std::atomic<State>& state = states[entry.device];
    if (!recorder::is_selected(kSelectAllocator)) {
        miss(state);
        return;
    }
    const int device = acl::physical_device(entry.device);
    if (device < 0 || !observes_npu(device)) {
        miss(state);
        return;
    }
    if (state.load(std::memory_order_relaxed) != State::kKnown) {
        leave_out(state, device);
        return;
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Event event{kind};
    event.pool = format::Pool::kPta;
    event.device = npu(device);
    event.address = static_cast<std::uint64_t>(entry.address);
    event.size = entry.size;
    event.extra = reinterpret_cast<std::uint64_t>(entry.stream);
    event.attribute_id = attributes_of(scope, entry.pool, -1);
    recorder::append(scope, event);
}

bool is_trusted() noexcept {
    const Trust trusted = trust.load(std::memory_order_relaxed);
    return trusted == Trust::kNew || trusted == Trust::kChecked;
}

bool begin_snapshot(Snapshot purpose) noexcept {
    moment_count = 0;
    const bool is_told = is_trusted();
    snapshot = is_told ? purpose : Snapshot::kNone;
    return is_told;
}

}  // namespace

const char* attach(const char* version, bool is_late) noexcept {
    if (trust.load(std::memory_order_relaxed) != Trust::kUnattached) {
        return nullptr;
    }
    AllocatorObject allocator = nullptr;
    const char* const why = find_allocator(version, allocator);
    if (why != nullptr) {
        return why;
    }
    if (is_late) {
        was_late.store(true, std::memory_order_relaxed);
        for (std::atomic<State>& state : states) {
            state.store(State::kUnknown, std::memory_order_relaxed);
        }
    }
    using Tracker = std::function<void(const Entry&)>;
    Tracker tracker = &take;
    trust.store(Trust::kNew, std::memory_order_relaxed);
    // A class that is not trivial is passed by its address.
    reinterpret_cast<void (*)(const void*, Tracker*)>(attach_function(allocator))(allocator, &tracker);
    return nullptr;
}

bool begin_state() noexcept { return begin_snapshot(Snapshot::kRecorded); }

bool begin_comparison() noexcept { return begin_snapshot(Snapshot::kCompared); }

bool take_blocks() noexcept {
    const bool can_tell = is_trusted() && !mstx::is_domain_known(format::Pool::kPta);
    if (can_tell) {
        takes_all_blocks.store(true, std::memory_order_relaxed);
    }
    return can_tell;
}

void note_reserved(int device, std::int64_t reserved_bytes) noexcept {
    auto expected = Trust::kNew;
    trust.compare_exchange_strong(expected, Trust::kChecked, std::memory_order_relaxed);
    mstx::add_reserved(format::Pool::kPta, device, reserved_bytes);
}

std::size_t end_state(const Moment*& found) noexcept {
    snapshot = Snapshot::kNone;
    found = moments;
    return moment_count;
}

bool record_held(const Held& held) noexcept {
    const RecordingScope scope(true);
    if (!scope) {
        return false;
    }
    Event event{held.kind};
    event.pool = format::Pool::kPta;
    event.flags = format::kFlagShadow;
    event.device = npu(held.device);
    event.address = held.address;
    event.size = static_cast<std::int64_t>(held.size);
    event.extra = held.stream;
    event.attribute_id = attributes_of(scope, held.pool, held.requested_bytes);
    if (held.kind == format::EventKind::kSegmentAlloc || held.kind == format::EventKind::kSegmentMap) {
        const char* const name = held.is_small ? "small" : "large";
        event.name_id = recorder::intern_string(scope, name, std::strlen(name));
    }
    return recorder::append(scope, event) != 0;
}

void lose_state(const char* why) noexcept { refuse(why); }

std::uint32_t attributes_of_block(std::uint64_t address) noexcept {
    const Allocated known = allocated;
    allocated = {};
    if (known.address != address || known.stream <= 1 || trust.load(std::memory_order_relaxed) == Trust::kRefused) {
        return 0;
    }
    std::uint32_t number = stream_attributes[known.stream].load(std::memory_order_relaxed);
    if (number == 0) {
        const format::Attribute pair{format::AttributeKey::kStreamId, format::ValueKind::kNumber, 0, known.stream};
        number = texts::number_of_attributes(&pair, 1);
        stream_attributes[known.stream].store(number, std::memory_order_relaxed);
    }
    return number;
}

void block_was_given_back() noexcept { freeing = 0; }

void block_was_reported(std::uint64_t address, std::uint64_t bytes) noexcept {
    note_observed();
    if (trust.load(std::memory_order_relaxed) != Trust::kNew) {
        return;
    }
    if (!was_told && was_late.load(std::memory_order_relaxed)) {
        return;
    }
    const Pending reported = pending;
    pending = {};
    if (reported.address != address || reported.bytes == 0 || reported.bytes > bytes) {
        refuse("its trace tracker told of another block than mstx");
        return;
    }
    if (comparisons.fetch_add(1, std::memory_order_relaxed) + 1 == kComparisons) {
        auto expected = Trust::kNew;
        trust.compare_exchange_strong(expected, Trust::kChecked, std::memory_order_relaxed);
    }
}

}  // namespace msmemscope::allocator_trace
