#include "core/observe/out_of_memory.h"

#include <atomic>
#include <cstring>

#include "core/observe/blocks.h"
#include "core/writer/attributes.h"
#include "core/writer/device_support.h"
#include "core/writer/keep_errno.h"

namespace msmemscope::out_of_memory {
namespace {

using Key = format::AttributeKey;

constexpr const char* kSnapshotName = "OOM_Snapshot";

enum class Latest : std::uint8_t { kSucceeded, kRecorded, kGivenUp };
__attribute__((tls_model("initial-exec"))) __thread Latest latest = Latest::kSucceeded;

std::atomic<std::uint64_t> failures{0};

// Millionths of a percent, rounded to the nearest, to an even number where two are as near; 0 of nothing.
std::uint64_t rate(std::uint64_t part, std::uint64_t whole) noexcept {
    constexpr std::uint64_t kMillion = 1000000;
    const unsigned __int128 scaled = static_cast<unsigned __int128>(part) * 100 * kMillion;
    const auto millionths = static_cast<std::uint64_t>(whole == 0 ? 0 : scaled / whole);
    const auto rest = static_cast<std::uint64_t>(whole == 0 ? 0 : scaled % whole);
    const std::uint64_t above = whole - rest;
    return millionths + (rest > above || (rest == above && millionths % 2 == 1) ? 1 : 0);
}

// The order of the attributes is that of every snapshot. Figures that are not known here are left out.
void describe(Attributes& attributes, const PoolBytes* pool, const MemoryBytes* memory) noexcept {
    if (pool != nullptr) {
        attributes.number(Key::kReservedBytes, pool->reserved).number(Key::kAllocatedBytes, pool->allocated);
    }
    if (memory != nullptr) {
        attributes.number(Key::kTotalBytes, memory->total).number(Key::kFreeBytes, memory->free);
        attributes.number(Key::kDeviceRate, rate(memory->total - memory->free, memory->total));
    }
    if (pool != nullptr) {
        attributes.number(Key::kReservedRate, rate(pool->allocated, pool->reserved));
    }
}

void describe_device(const RecordingScope& scope, Attributes& attributes, const DeviceSupport& support,
                     format::Device device) noexcept {
    PoolBytes pool{};
    MemoryBytes memory{};
    const bool has_pool = support.pool_of(device, pool);
    const bool has_memory = support.memory_of(scope, device, memory);
    describe(attributes, has_pool ? &pool : nullptr, has_memory ? &memory : nullptr);
    MemoryLimit limit{};
    if (support.limit_of != nullptr && support.limit_of(limit)) {
        attributes.text(Key::kLimit, limit.name).number(Key::kLimitBytes, limit.bytes);
        attributes.number(Key::kLimitUsedBytes, limit.used);
    }
}

void append_failure(const RecordingScope& scope, const Failure& failure, const CallSite& site) noexcept {
    Attributes attributes(scope);
    attributes.text(Key::kFunction, failure.function)
        .number(Key::kRequestedBytes, failure.size_bytes)
        .number(Key::kAllocationFlag, failure.flag);
    Event event{format::EventKind::kOom};
    event.device = failure.device;
    event.size = static_cast<std::int64_t>(failure.size_bytes);
    event.name_id = recorder::intern_string(scope, failure.function, std::strlen(failure.function));
    event.attribute_id = attributes.id();
    event.extra = recorder::settings().oom_top;
    recorder::append_with_stacks(scope, event, site);
}

}  // namespace

void record(const Failure& failure, const CallSite& site) noexcept {
    if (!recorder::settings().observes(failure.device) ||
        !(recorder::is_selected(kSelectAlloc) || recorder::is_selected(kSelectFree))) {
        return;
    }
    const KeepErrno keep_errno;
    const DeviceSupport* const support = kDeviceSupports.of(failure.device);
    if (support != nullptr) {
        support->prepare_memory();  // outside of the scope: it may write facts
    }
    const RecordingScope scope(true);
    if (!scope) {
        return;
    }
    Attributes attributes(scope);
    if (support != nullptr) {
        describe_device(scope, attributes, *support, failure.device);
    }
    Event event{format::EventKind::kSnapshot};
    event.device = failure.device;
    event.name_id = recorder::intern_string(scope, kSnapshotName, std::strlen(kSnapshotName));
    event.attribute_id = attributes.id();
    recorder::append_with_stacks(scope, event, site);
    append_failure(scope, failure, site);
    latest = Latest::kRecorded;
    count_failure();
}

void forget() noexcept { latest = Latest::kSucceeded; }

bool give_up() noexcept {
    const bool is_told = latest == Latest::kRecorded;
    latest = is_told ? Latest::kGivenUp : latest;
    return is_told;
}

bool just_recorded() noexcept { return latest != Latest::kSucceeded; }

std::uint64_t recorded_failures() noexcept { return failures.load(std::memory_order_relaxed); }

void count_failure() noexcept { failures.fetch_add(1, std::memory_order_relaxed); }

}  // namespace msmemscope::out_of_memory
