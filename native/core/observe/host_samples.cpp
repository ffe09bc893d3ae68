#include "core/observe/host_samples.h"

#include <algorithm>

#include "core/observe/container_looks.h"
#include "core/observe/host_sampling.h"
#include "core/stacks/native_stack.h"
#include "core/stacks/python_stack.h"
#include "core/writer/append.h"
#include "core/writer/attributes.h"
#include "core/writer/control_group.h"
#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "core/writer/process_memory.h"

namespace msmemscope {
namespace host_samples {

__attribute__((tls_model("initial-exec"))) __thread ThreadSampler thread_sampler;

namespace {

constexpr std::uint64_t kUsualMeanBytes = 512UL << 10U;
// A mean grows to so many times what it is at first, at most.
constexpr std::uint64_t kMostTimesMean = 64;
// A thread whose samples come faster doubles its mean, one whose samples come slower halves it.
constexpr std::uint64_t kFastNs = 250'000;
constexpr std::uint64_t kSlowNs = 1'000'000;

// A process that records nothing else begins a log when its live samples stand for this many bytes. Most processes that
// load a framework never get there. What was allocated before has no line.
constexpr std::uint64_t kWorthALogBytes = 8UL << 20U;
constexpr std::uint64_t kPrivateWorthALogBytes = 64UL << 20U;
// Samples that are followed at once: about 4 MiB. Where each allocation is recorded, the table is the limit.
constexpr std::uint64_t kMostSamples = 100'000;

// Frames of native stacks, where the settings want none: enough to get out of the C++ library and of Python's
// allocators.
constexpr std::uint32_t kLeastNativeDepth = 12;

// Moments of figures: a framework begins to be imported, it is imported, and the program ends.
constexpr const char* kImport = "import";
constexpr const char* kImported = "imported";
constexpr const char* kEnd = "end";
constexpr const char* kNearLimit = "limit";  // the control group comes near to its limit

// The kernel looks at every page for what a process does not share. The time it takes is one in so many of the run.
constexpr std::uint64_t kOwnFigureNs = 200'000'000;
constexpr std::uint64_t kShareOfOwnFigures = 100;
constexpr std::uint64_t kOwnFigureOfFirstNs = 1'000'000'000;
constexpr std::uint64_t kShareOfOwnFiguresOfFirst = 500;
// It takes about 10 ms per gigabyte, in the middle of an allocation of the program.
constexpr std::uint64_t kMostForOwnFigure = 8UL << 30U;
constexpr std::uint64_t kFigureNs = 20'000'000;

// Not in memory that fork wipes: children sample if their parent did.
std::atomic<bool> is_sampling{false};
// A framework is being imported: samples are taken where there is a log.
std::atomic<bool> opens_no_log{false};
std::atomic<bool> has_ended{false};
std::atomic<std::uint64_t> threads_seeded{0};
std::atomic<bool> has_looked_for_group{false};

// Nothing of the mathematical library: the core needs the C library alone.

constexpr double kLn2 = 0.693147180559945309;

// -ln(u) of u = (bits + 1) / 2^53, with an error below 1e-7.
double minus_log(std::uint64_t bits) noexcept {
    const std::uint64_t numerator = bits + 1;
    const auto exponent = static_cast<int>(63U - static_cast<unsigned>(__builtin_clzll(numerator)));
    const double mantissa =
        static_cast<double>(numerator) / static_cast<double>(std::uint64_t{1} << exponent);  // 1 to 2
    const double part = (mantissa - 1) / (mantissa + 1);                                     // ln(m) = 2 artanh(part)
    const double square = part * part;
    const double series =
        1 + square * (1.0 / 3 +
                      square * (1.0 / 5 +
                                square * (1.0 / 7 + square * (1.0 / 9 + square * (1.0 / 11 + square * (1.0 / 13))))));
    return (53 - exponent) * kLn2 - 2 * part * series;
}

// 1 - exp(-x), x > 0.
double chance(double x) noexcept {
    if (x > 40) {
        return 1;
    }
    // exp(-x) = exp(-x / 64) to the power of 64; for a small x the difference to 1 comes from the series itself.
    const double part = x < 0.01 ? x : x / 64;
    const double difference =
        part *
        (1 - part / 2 *
                 (1 - part / 3 * (1 - part / 4 * (1 - part / 5 * (1 - part / 6 * (1 - part / 7 * (1 - part / 8)))))));
    if (x < 0.01) {
        return difference;
    }
    double power = 1 - difference;
    for (int doubling = 0; doubling < 6; ++doubling) {
        power *= power;
    }
    return 1 - power;
}

bool wants_samples() noexcept {
    return current_settings.host_sampling == HostSampling::kSampled ||
           current_settings.host_sampling == HostSampling::kAll;
}

// 0: each allocation is recorded.
std::uint64_t least_mean_bytes() noexcept {
    if (current_settings.host_sampling == HostSampling::kAll) {
        return 0;
    }
    return current_settings.host_sample_bytes != 0 ? current_settings.host_sample_bytes : kUsualMeanBytes;
}

std::uint64_t next_random(ThreadSampler& sampler) noexcept {  // xorshift64*
    std::uint64_t value = sampler.random;
    value ^= value >> 12U;
    value ^= value << 25U;
    value ^= value >> 27U;
    sampler.random = value;
    return value * 0x2545f4914f6cdd1dULL;
}

void draw(ThreadSampler& sampler) noexcept {
    const double distance = minus_log(next_random(sampler) >> 11U) * static_cast<double>(sampler.mean_bytes);
    sampler.bytes_left = static_cast<std::uint64_t>(distance);
}

void seed(ThreadSampler& sampler) noexcept {
    const std::uint64_t number = threads_seeded.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint64_t place = reinterpret_cast<std::uint64_t>(&sampler);
    sampler.random = hash_word(place ^ clock_ns(), number) | 1U;
    sampler.mean_bytes = least_mean_bytes();
}

void adapt_mean(ThreadSampler& sampler, std::uint64_t now) noexcept {
    const std::uint64_t passed = now - sampler.last_sample_ns;
    sampler.last_sample_ns = now;
    const std::uint64_t least = least_mean_bytes();
    if (passed < kFastNs) {
        sampler.mean_bytes = std::min(2 * sampler.mean_bytes, kMostTimesMean * least);
    } else if (passed > kSlowNs) {
        sampler.mean_bytes = std::max(sampler.mean_bytes / 2, least);
    }
}

void count_in_filter(ProcessState& state, std::uint64_t address, bool comes) noexcept {
    std::atomic<std::uint8_t>& counter = state.host_filter[filter_place(address)];
    std::uint8_t value = counter.load(std::memory_order_relaxed);
    // One that is full stays so: how many there are is no longer known.
    while (value != 0xFF) {
        const auto changed = static_cast<std::uint8_t>(comes ? value + 1 : value - 1);
        if (counter.compare_exchange_weak(value, changed, std::memory_order_relaxed)) {
            return;
        }
    }
}

bool follow(ProcessState& state, const LiveBlock& sample) noexcept {
    const std::uint64_t most = least_mean_bytes() == 0 ? UINT64_MAX : kMostSamples;
    if (state.host_sample_count.fetch_add(1, std::memory_order_relaxed) >= most || !state.host_samples.insert(sample)) {
        state.host_sample_count.fetch_sub(1, std::memory_order_relaxed);
        return false;
    }
    count_in_filter(state, sample.address, true);
    return true;
}

bool is_forked(const ProcessState& state) noexcept {
    return state.epoch.load(std::memory_order_acquire) == 0 || state.is_forked.load(std::memory_order_relaxed);
}

// Lists of attributes are kept once each: figures of a coarse grain have few of them.
constexpr std::uint64_t kGrain = 64UL << 10U;
constexpr std::uint64_t kGrainsOfLimit = 1024;

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t grain) noexcept { return (bytes + grain / 2) / grain * grain; }

// Of a forked process they come more often: what it copies of its parent is seen by them alone.
void set_next_own_figure(ProcessState& state, std::uint64_t begin) noexcept {
    const std::uint64_t end = clock_ns();
    const std::uint64_t pause = is_forked(state)
                                    ? std::max(kOwnFigureNs, (end - begin) * kShareOfOwnFigures)
                                    : std::max(kOwnFigureOfFirstNs, (end - begin) * kShareOfOwnFiguresOfFirst);
    state.own_figure_ns.store(end + pause, std::memory_order_relaxed);
}

// A forked process shares pages with its parent until one of them writes. Its own ones alone take room.
void add_own_memory(Attributes& attributes, ProcessState& state, std::uint64_t resident, bool is_last) noexcept {
    const std::uint64_t begin = clock_ns();
    if (!is_forked(state) && resident > kMostForOwnFigure) {
        return;
    }
    if (!is_last && begin < state.own_figure_ns.load(std::memory_order_relaxed)) {
        return;
    }
    const OwnMemory own = own_memory();
    if (is_forked(state)) {
        attributes.number(format::AttributeKey::kPrivateBytes, own.private_bytes);
    }
    attributes.number(format::AttributeKey::kProportionalBytes, rounded(own.proportional_bytes, kGrain));
    set_next_own_figure(state, begin);
}

// Whether the group has come near to its limit since it was far from it.
bool comes_near(ProcessState& state, const GroupMemory& group) noexcept {
    if (group.limit == 0) {
        return false;
    }
    if (group.used < group.limit / 10 * 8) {
        state.is_near_limit.store(false, std::memory_order_relaxed);
    }
    return group.is_near_limit() && !state.is_near_limit.exchange(true, std::memory_order_relaxed);
}

// moment: the moment in the life of the program, one of those above; null for any.
void write_figure(const RecordingScope& scope, ProcessState& state, const char* moment) noexcept {
    const KeepErrno keep_errno;
    const ProcessMemory memory = process_memory();
    if (memory.anonymous == 0) {
        return;
    }
    Event event{format::EventKind::kHostMemory};
    event.size = static_cast<std::int64_t>(memory.anonymous);
    event.address = kept_by_the_heap();
    event.extra = memory.resident - memory.anonymous;
    Attributes attributes(scope);
    const GroupMemory group = group_memory();
    if (comes_near(state, group)) {
        moment = moment == nullptr ? kNearLimit : moment;
        container_looks::ask_now();
    }
    if (moment != nullptr) {
        attributes.text(format::AttributeKey::kWhen, moment);
    }
    // What has no file on a disk is a part of what has a file.
    if (const std::uint64_t shared = shared_memory(); shared != 0) {
        attributes.number(format::AttributeKey::kSharedBytes, rounded(shared, kGrain));
    }
    if (group.limit != 0) {
        const std::uint64_t grain = std::max(kGrain, group.limit / kGrainsOfLimit);
        attributes.number(format::AttributeKey::kGroupBytes, rounded(group.used, grain));
        attributes.number(format::AttributeKey::kGroupLimit, group.limit);
    }
    add_own_memory(attributes, state, memory.resident, moment == kEnd);
    event.attribute_id = attributes.id();
    append_here(state, event);
}

void write_figure_now_and_then(const RecordingScope& scope, ProcessState& state, std::uint64_t now) noexcept {
    std::uint64_t before = state.host_figure_ns.load(std::memory_order_relaxed);
    if (now - before >= kFigureNs &&
        state.host_figure_ns.compare_exchange_strong(before, now, std::memory_order_relaxed)) {
        write_figure(scope, state, nullptr);
    }
}

bool is_collected(const ProcessState& state) noexcept {
    // The state of a forked child is not made before there is something to record.
    const bool is_fresh = state.epoch.load(std::memory_order_acquire) == 0;
    const auto& collecting = is_fresh ? collecting_across_fork : state.collecting;
    return (collecting.load(std::memory_order_relaxed) & kSelectAlloc) != 0;
}

void append_end(ProcessState& state, const LiveBlock& sample) noexcept {
    Event event{format::EventKind::kHostSampleFree};
    event.address = sample.address;
    event.size = static_cast<std::int64_t>(sample.size_bytes);
    event.extra = sample.sequence;
    append_here(state, event);
}

bool may_record(const ProcessState* state) noexcept {
    return state != nullptr && thread_handle.depth == 0 && is_sampling.load(std::memory_order_relaxed) &&
           is_collected(*state) && !state->failed.load(std::memory_order_relaxed);
}

// False: no more samples can be followed.
bool write(const RecordingScope& scope, ProcessState& state, LiveBlock sample, std::uint64_t estimate,
           const char* function, const CallSite& site) noexcept {
    Event event{format::EventKind::kHostSample};
    event.address = sample.address;
    event.size = static_cast<std::int64_t>(sample.size_bytes);
    event.name_id = recorder::intern_string(scope, function, __builtin_strlen(function));
    event.extra = estimate;
    event.python_stack_id = take_python_stack(scope, current_settings.python_stack_depth);
    event.native_stack_id =
        take_native_stack(scope, std::max(current_settings.native_stack_depth, kLeastNativeDepth), site);
    sample.sequence = append_here(state, event);
    if (sample.sequence != 0 && !follow(state, sample)) {
        append_end(state, sample);  // its end would not be seen: it does not count
        return false;
    }
    return true;
}

// Whether the process takes as much memory as one would want to know of. Of a forked one its pages count that it does
// not share: it copies pages of its parent without any allocation.
bool is_worth_a_log(ProcessState& state) noexcept {
    if (state.host_unrecorded_bytes.load(std::memory_order_relaxed) >= kWorthALogBytes) {
        return true;
    }
    const std::uint64_t begin = clock_ns();
    std::uint64_t due = state.own_figure_ns.load(std::memory_order_relaxed);
    if (!is_forked(state) || begin < due ||
        !state.own_figure_ns.compare_exchange_strong(due, UINT64_MAX, std::memory_order_relaxed)) {
        return false;
    }
    const KeepErrno keep_errno;
    const bool is_large = own_memory().private_bytes >= kPrivateWorthALogBytes;
    if (is_large) {
        state.own_figure_ns.store(0, std::memory_order_relaxed);  // the first figure of the log has it
    } else {
        set_next_own_figure(state, begin);
    }
    return is_large;
}

void record(ProcessState& state, const void* memory, std::uint64_t bytes, std::uint64_t estimate, const char* function,
            const CallSite& site) noexcept {
    LiveBlock sample{reinterpret_cast<std::uint64_t>(memory), bytes, 0, format::Pool::kNone, format::kDeviceNone, 0, 0};
    const bool has_log = state.phase.load(std::memory_order_acquire) == CapturePhase::kOpen;
    if (!has_log && opens_no_log.load(std::memory_order_relaxed)) {
        return;
    }
    if (!has_log && !is_worth_a_log(state)) {
        sample.size_bytes = estimate;
        if (follow(state, sample)) {
            state.host_unrecorded_bytes.fetch_add(estimate, std::memory_order_relaxed);
        }
        return;
    }
    bool is_followed = true;
    if (const RecordingScope scope(false); scope) {
        const std::uint64_t now = clock_ns();
        write_figure_now_and_then(scope, state, now);
        container_looks::ask_if_due(now);
        is_followed = write(scope, state, sample, estimate, function, site);
    }
    if (!is_followed && !state.host_samples_are_full.exchange(true, std::memory_order_relaxed)) {
        recorder::note_fact("host_samples", "full");
    }
}

}  // namespace

void note_allocation(const void* memory, std::uint64_t bytes, const char* function, const CallSite& site) noexcept {
    ThreadSampler& sampler = thread_sampler;
    if (sampler.random == 0) {
        seed(sampler);
        draw(sampler);
        if (sampler.bytes_left >= bytes) {
            sampler.bytes_left -= bytes;
            return;
        }
    }
    const std::uint64_t mean = sampler.mean_bytes;
    ProcessState* const state = process_state;
    if (memory == nullptr || !may_record(state)) {
        draw(sampler);
        return;
    }
    const std::uint64_t now = clock_ns();
    adapt_mean(sampler, now);
    draw(sampler);
    const double share = mean == 0 ? 1 : chance(static_cast<double>(bytes) / static_cast<double>(mean));
    record(*state, memory, bytes, static_cast<std::uint64_t>(static_cast<double>(bytes) / share), function, site);
}

bool are_taken() noexcept { return may_record(process_state); }

void note_whole(const void* place, std::uint64_t bytes, const char* function, const CallSite& site) noexcept {
    if (ProcessState* const state = process_state; may_record(state)) {
        record(*state, place, bytes, bytes, function, site);
    }
}

bool take(const void* memory, LiveBlock& sample) noexcept {
    ProcessState& state = *process_state;
    if (!state.host_samples.remove(format::Pool::kNone, reinterpret_cast<std::uint64_t>(memory), sample)) {
        return false;
    }
    state.host_sample_count.fetch_sub(1, std::memory_order_relaxed);
    count_in_filter(state, sample.address, false);
    return true;
}

void put_back(const LiveBlock& sample) noexcept { follow(*process_state, sample); }

void note_free(const LiveBlock& sample) noexcept {
    ProcessState& state = *process_state;
    if (sample.sequence == 0) {
        state.host_unrecorded_bytes.fetch_sub(sample.size_bytes, std::memory_order_relaxed);
        return;
    }
    if (has_ended.load(std::memory_order_relaxed) || state.failed.load(std::memory_order_relaxed)) {
        return;
    }
    const RecordingScope scope(true);
    if (scope) {
        append_end(state, sample);
    }
}

// Where a log is open anyway. A forked process that has copied much begins one for its last figure.
void write_figure_in_log(const char* moment) noexcept {
    ProcessState* const state = process_state;
    if (state == nullptr || !may_record(state)) {
        return;
    }
    const bool has_log = state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen;
    if (!has_log && !(moment == kEnd && is_forked(*state) && own_memory().private_bytes >= kPrivateWorthALogBytes)) {
        return;
    }
    const RecordingScope scope(false);
    if (scope) {
        write_figure(scope, *state, moment);
    }
}

}  // namespace host_samples

namespace recorder {

void begin_host_samples() noexcept {
    host_samples::opens_no_log.store(false, std::memory_order_relaxed);
    host_samples::has_ended.store(false, std::memory_order_relaxed);
    if (!host_samples::has_looked_for_group.exchange(true, std::memory_order_relaxed)) {
        find_control_group();
    }
    host_samples::is_sampling.store(host_samples::wants_samples(), std::memory_order_release);
    host_samples::write_figure_in_log(host_samples::kImported);
}

void open_no_log_for_host_samples() noexcept {
    host_samples::opens_no_log.store(true, std::memory_order_relaxed);
    host_samples::write_figure_in_log(host_samples::kImport);
}

void end_host_samples() noexcept {
    host_samples::write_figure_in_log(host_samples::kEnd);
    host_samples::has_ended.store(true, std::memory_order_relaxed);
    host_samples::is_sampling.store(false, std::memory_order_release);
}

}  // namespace recorder
}  // namespace msmemscope
