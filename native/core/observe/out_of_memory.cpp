#include "core/observe/out_of_memory.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "core/observe/blocks.h"
#include "core/writer/device_support.h"
#include "core/writer/keep_errno.h"

namespace msmemscope::out_of_memory {
namespace {

constexpr const char* kSnapshotName = "OOM_Snapshot";

__attribute__((tls_model("initial-exec"))) __thread bool has_just_failed = false;

// Attributes one behind the other: "key:value,key:value".
class Text {
public:
    __attribute__((format(printf, 2, 3))) void add(const char* format, ...) noexcept {
        if (used_ != 0 && used_ + 1 < sizeof(text_)) {
            text_[used_++] = ',';
        }
        va_list values;
        va_start(values, format);
        const int bytes = std::vsnprintf(text_ + used_, sizeof(text_) - used_, format, values);
        va_end(values);
        if (bytes > 0) {
            used_ += static_cast<std::size_t>(bytes);
            used_ = used_ < sizeof(text_) ? used_ : sizeof(text_) - 1;
        }
    }

    void add_bytes(const char* key, std::uint64_t bytes) noexcept {
        add("%s:%llu", key, static_cast<unsigned long long>(bytes));
    }

    // Percent with six decimals, rounded as printf does, 0 of nothing. Not by printf, which writes the decimal point of
    // the program's locale.
    void add_rate(const char* key, std::uint64_t part, std::uint64_t whole) noexcept {
        constexpr std::uint64_t kMillion = 1000000;
        const unsigned __int128 scaled = static_cast<unsigned __int128>(part) * 100 * kMillion;
        auto millionths = static_cast<std::uint64_t>(whole == 0 ? 0 : scaled / whole);
        const auto rest = static_cast<std::uint64_t>(whole == 0 ? 0 : scaled % whole);
        const std::uint64_t above = whole - rest;
        millionths += rest > above || (rest == above && millionths % 2 == 1) ? 1 : 0;
        add("%s:%llu.%06llu", key, static_cast<unsigned long long>(millionths / kMillion),
            static_cast<unsigned long long>(millionths % kMillion));
    }

    std::uint32_t id(const RecordingScope& scope) const noexcept {
        return recorder::intern_string(scope, text_, used_);
    }

private:
    char text_[384];
    std::size_t used_ = 0;
};

// The order of the attributes is that of every snapshot; what is not known here is left out.
void describe(Text& text, const PoolBytes* pool, const MemoryBytes* memory) noexcept {
    if (pool != nullptr) {
        text.add_bytes("reserved", pool->reserved);
        text.add_bytes("allocated", pool->allocated);
    }
    if (memory != nullptr) {
        text.add_bytes("total", memory->total);
        text.add_bytes("free", memory->free);
        text.add_rate("device_rate", memory->total - memory->free, memory->total);
    }
    if (pool != nullptr) {
        text.add_rate("reserved_rate", pool->allocated, pool->reserved);
    }
}

void describe_device(const RecordingScope& scope, Text& text, const DeviceSupport& support,
                     format::Device device) noexcept {
    PoolBytes pool{};
    MemoryBytes memory{};
    const bool has_pool = support.pool_of(device, pool);
    const bool has_memory = support.memory_of(scope, device, memory);
    describe(text, has_pool ? &pool : nullptr, has_memory ? &memory : nullptr);
}

void append_failure(const RecordingScope& scope, const Failure& failure, const CallSite& site) noexcept {
    Text text;
    text.add("func:%s,req_size:%llu,flag:%llu", failure.function, static_cast<unsigned long long>(failure.size_bytes),
             static_cast<unsigned long long>(failure.flag));
    Event event{format::EventKind::kOom};
    event.device = failure.device;
    event.size = static_cast<std::int64_t>(failure.size_bytes);
    event.name_id = recorder::intern_string(scope, failure.function, std::strlen(failure.function));
    event.attribute_id = text.id(scope);
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
    Text text;
    if (support != nullptr) {
        describe_device(scope, text, *support, failure.device);
    }
    Event event{format::EventKind::kSnapshot};
    event.device = failure.device;
    event.name_id = recorder::intern_string(scope, kSnapshotName, std::strlen(kSnapshotName));
    event.attribute_id = text.id(scope);
    recorder::append_with_stacks(scope, event, site);
    append_failure(scope, failure, site);
    has_just_failed = true;
}

void forget() noexcept { has_just_failed = false; }

bool just_recorded() noexcept { return has_just_failed; }

}  // namespace msmemscope::out_of_memory
