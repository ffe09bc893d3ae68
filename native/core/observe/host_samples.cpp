#include "core/observe/host_samples.h"

#include <algorithm>
#include <cstring>

#include "core/observe/container_looks.h"
#include "core/observe/host_figures.h"
#include "core/observe/host_sampling.h"
#include "core/observe/resident_blocks.h"
#include "core/stacks/native_stack.h"
#include "core/stacks/python_stack.h"
#include "core/writer/append.h"
#include "core/writer/control_group.h"
#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "core/writer/process_memory.h"

namespace msmemscope {
namespace host_samples {

using host_figures::Heap;
using host_figures::is_forked;
using host_figures::Moment;
using host_figures::set_next_own_figure;
using host_figures::write_figure;

__attribute__((tls_model("initial-exec"))) __thread ThreadSampler thread_sampler;

namespace {

constexpr std::uint64_t kUsualMeanBytes = 512UL << 10U;
// A program without a framework is small, and so are its errors to be. Its first samples come more often.
constexpr std::uint64_t kFineMeanBytes = 64UL << 10U;
constexpr std::uint32_t kFineSamples = 2048;
// A mean grows to so many times what it is at first, at most.
constexpr std::uint64_t kMostTimesMean = 64;
// The pace of a thread: its samples take this time each, in the long run.
constexpr std::uint64_t kPaceNs = 250'000;
// How far its samples may get ahead of the pace, 128 of them. Further, and each sample doubles its mean.
constexpr std::uint64_t kMostAheadNs = 128 * kPaceNs;
constexpr std::uint64_t kFirstAheadNs = 16 * kPaceNs;
// A thread that is behind the pace for this time halves its mean, and once more for each doubling of the time.
constexpr std::uint64_t kBehindNs = 750'000;

// A process that records nothing else begins a log when its live samples stand for this many bytes. Most processes that
// load a framework never get there. Older allocations have no line.
constexpr std::uint64_t kWorthALogBytes = 8UL << 20U;
constexpr std::uint64_t kPrivateWorthALogBytes = 64UL << 20U;
// Samples that are followed at once: about 4 MiB. Where each allocation is recorded, the table is the limit.
constexpr std::uint64_t kMostSamples = 100'000;

// The least memory that a thread takes besides its own allocations. It is the used pages of its stack, and its part of
// the variables of all libraries. The dynamic loader allocates that part.
constexpr std::uint64_t kThreadBytes = 32UL << 10U;
// Stacks that are looked at beside a figure, and when a thread is created: about a microsecond each.
constexpr std::size_t kStacksWithFigure = 64;
constexpr std::size_t kStacksWithThread = 4;

// Frames of native stacks, where the settings want none: enough to get out of the C++ library and of Python's
// allocators.
constexpr std::uint32_t kLeastNativeDepth = 12;

constexpr std::uint64_t kFigureNs = 20'000'000;

// Not in memory that fork wipes: children sample if their parent did.
std::atomic<bool> is_sampling{false};
// A framework is being imported: samples are taken where there is a log.
std::atomic<bool> opens_no_log{false};
std::atomic<bool> has_ended{false};
std::atomic<std::uint64_t> threads_seeded{0};
std::atomic<bool> has_looked_for_group{false};
// Of a process and the ones that it forks.
std::atomic<std::uint32_t> fine_samples_left{kFineSamples};

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
    const std::uint64_t wanted = current_settings.host_sample_bytes;
    const bool is_usual = wanted == 0 || wanted == kUsualMeanBytes;
    return !is_usual                                                ? wanted
           : fine_samples_left.load(std::memory_order_relaxed) != 0 ? kFineMeanBytes
                                                                    : kUsualMeanBytes;
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
    // A program may have a thread for each request: only the first one begins with a whole burst.
    sampler.pace_ns = number == 1 ? 0 : clock_ns() + kMostAheadNs - kFirstAheadNs;
}

// Sets the mean after a sample. Most programs allocate in bursts: those are seen in detail as far as the pace allows.
void adapt_mean(ThreadSampler& sampler, std::uint64_t now) noexcept {
    const std::uint64_t least = least_mean_bytes();
    if (sampler.pace_ns > now) {
        if (sampler.pace_ns - now > kMostAheadNs) {
            sampler.pace_ns = now + kMostAheadNs;
            sampler.mean_bytes = std::min(2 * sampler.mean_bytes, kMostTimesMean * least);
        }
    } else {
        for (std::uint64_t behind = (now - sampler.pace_ns) / kBehindNs; behind != 0; behind /= 2) {
            sampler.mean_bytes /= 2;
        }
        sampler.pace_ns = now;
    }
    sampler.pace_ns += kPaceNs;
    sampler.mean_bytes = std::max(sampler.mean_bytes, least);
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

bool is_collected(const ProcessState& state) noexcept {
    // The state of a forked child is not made before there is something to record.
    const bool is_fresh = state.epoch.load(std::memory_order_acquire) == 0;
    const auto& collecting = is_fresh ? collecting_across_fork : state.collecting;
    return (collecting.load(std::memory_order_relaxed) & kSelectAlloc) != 0;
}

void append_end(ProcessState& state, const LiveBlock& sample, std::uint64_t resident_bytes) noexcept {
    resident_blocks::write(state, format::EventKind::kHostSampleFree, sample, resident_bytes);
}

bool may_record(const ProcessState* state) noexcept {
    return state != nullptr && thread_handle.depth == 0 && is_sampling.load(std::memory_order_relaxed) &&
           is_collected(*state) && !state->failed.load(std::memory_order_relaxed);
}

SampleOrigin origin_of(const RecordingScope& scope, const char* function, const CallSite& site) noexcept {
    const std::uint32_t depth = std::max(current_settings.native_stack_depth, kLeastNativeDepth);
    return {recorder::intern_string(scope, function, __builtin_strlen(function)),
            take_python_stack(scope, current_settings.python_stack_depth), take_native_stack(scope, depth, site)};
}

// False: no more samples can be followed.
bool write(ProcessState& state, LiveBlock sample, std::uint64_t estimate, const SampleOrigin& origin) noexcept {
    Event event{format::EventKind::kHostSample};
    event.address = sample.address;
    event.size = static_cast<std::int64_t>(sample.size_bytes);
    event.name_id = origin.name_id;
    event.extra = estimate;
    event.python_stack_id = origin.python_stack_id;
    event.native_stack_id = origin.native_stack_id;
    sample.sequence = append_here(state, event);
    if (sample.sequence != 0 && !follow(state, sample)) {
        append_end(state, sample, sample.size_bytes);  // its end would not be seen: it does not count
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

// The sample of a thread gets the size that its stack has now. False: it could not.
bool resize_thread(ProcessState& state, const ThreadStack& stack, std::uint64_t bytes) noexcept {
    TakenSample taken{};
    if (!take(reinterpret_cast<const void*>(stack.place), taken)) {
        return false;  // it is being joined, or was no sample
    }
    LiveBlock sample = taken.block;
    if (sample.sequence == 0) {
        state.host_unrecorded_bytes.fetch_add(bytes - sample.size_bytes, std::memory_order_relaxed);
        sample.size_bytes = bytes;
        follow(state, sample);
    } else {
        append_end(state, sample, sample.size_bytes);
        sample.size_bytes = bytes;
        write(state, sample, bytes, stack.origin);
    }
    // Whoever joined it meanwhile found no sample.
    if (!state.thread_stacks.has(stack) && take(reinterpret_cast<const void*>(stack.place), taken)) {
        note_free(taken);
    }
    return true;
}

// most: the stacks that are looked at.
void measure_threads(ProcessState& state, std::size_t most) noexcept {
    state.thread_stacks.measure(
        most, [&state](const ThreadStack& stack, std::uint64_t bytes) { return resize_thread(state, stack, bytes); });
}

void write_figure_now_and_then(const RecordingScope& scope, ProcessState& state, std::uint64_t now,
                               Heap heap) noexcept {
    std::uint64_t before = state.host_figure_ns.load(std::memory_order_relaxed);
    if (now - before >= kFigureNs &&
        state.host_figure_ns.compare_exchange_strong(before, now, std::memory_order_relaxed)) {
        measure_threads(state, kStacksWithFigure);
        write_figure(scope, state, Moment::kAny, heap);
    }
}

// labels: as resident_blocks has them.
LiveBlock sample_of(const void* memory, std::uint64_t bytes, std::uint32_t labels) noexcept {
    return {reinterpret_cast<std::uint64_t>(memory), bytes, 0, format::Pool::kNone, format::kDeviceNone, 0, labels};
}

// origin: gets the one of the sample, if it has a record.
void record(ProcessState& state, LiveBlock sample, std::uint64_t estimate, const char* function, const CallSite& site,
            SampleOrigin& origin) noexcept {
    const Heap heap = std::strncmp(function, "mmap", 4) == 0 ? Heap::kMayBeLocked : Heap::kIsFree;
    const bool has_log = state.phase.load(std::memory_order_acquire) == CapturePhase::kOpen;
    if (!has_log && opens_no_log.load(std::memory_order_relaxed)) {
        return;
    }
    if (!has_log && !is_worth_a_log(state)) {
        host_figures::note_begin(state, heap);
        sample.size_bytes = estimate;
        if (follow(state, sample)) {
            state.host_unrecorded_bytes.fetch_add(estimate, std::memory_order_relaxed);
        }
        return;
    }
    bool is_followed = true;
    if (const RecordingScope scope(false); scope) {
        const std::uint64_t now = clock_ns();
        if (!has_log) {
            host_figures::write_begin(scope, state);
        }
        write_figure_now_and_then(scope, state, now, heap);
        container_looks::ask_if_due(now);
        origin = origin_of(scope, function, site);
        std::uint32_t left = fine_samples_left.load(std::memory_order_relaxed);
        if (left != 0) {
            // Two threads may count one sample: nobody needs the exact number.
            fine_samples_left.store(left - 1, std::memory_order_relaxed);
        }
        is_followed = write(state, sample, estimate, origin);
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
    if (memory == nullptr || thread_handle.runs_own_code || !may_record(state)) {
        draw(sampler);
        return;
    }
    const std::uint64_t now = clock_ns();
    adapt_mean(sampler, now);
    draw(sampler);
    const double share = mean == 0 ? 1 : chance(static_cast<double>(bytes) / static_cast<double>(mean));
    SampleOrigin origin{};
    record(*state, sample_of(memory, bytes, 0), static_cast<std::uint64_t>(static_cast<double>(bytes) / share),
           function, site, origin);
}

bool are_taken() noexcept { return may_record(process_state); }

void note_thread(const void* place, std::uint64_t stack_bytes, const CallSite& site) noexcept {
    ProcessState* const state = process_state;
    if (!may_record(state)) {
        return;
    }
    SampleOrigin origin{};
    record(*state, sample_of(place, kThreadBytes, resident_blocks::kNotAsked), kThreadBytes, "pthread_create", site,
           origin);
    state->thread_stacks.add(reinterpret_cast<std::uint64_t>(place), stack_bytes, kThreadBytes, origin);
    // Samples without a record need no log, and begin none.
    if (state->phase.load(std::memory_order_acquire) != CapturePhase::kOpen) {
        measure_threads(*state, kStacksWithThread);
    } else if (const RecordingScope scope(false); scope) {
        measure_threads(*state, kStacksWithThread);
    }
}

void note_end_of_thread(const void* place) noexcept {
    if (ProcessState* const state = process_state; state != nullptr) {
        state->thread_stacks.remove(reinterpret_cast<std::uint64_t>(place));
    }
}

bool take(const void* memory, TakenSample& sample) noexcept {
    ProcessState& state = *process_state;
    LiveBlock& block = sample.block;
    if (!state.host_samples.remove(format::Pool::kNone, reinterpret_cast<std::uint64_t>(memory), block)) {
        return false;
    }
    state.host_sample_count.fetch_sub(1, std::memory_order_relaxed);
    count_in_filter(state, block.address, false);
    sample.resident_bytes = resident_blocks::of_sample(block);
    return true;
}

void end(const void* memory) noexcept {
    if (TakenSample sample{}; take(memory, sample)) {
        note_free(sample);
    }
}

void put_back(const TakenSample& sample) noexcept { follow(*process_state, sample.block); }

void note_free(const TakenSample& taken) noexcept {
    ProcessState& state = *process_state;
    const LiveBlock& sample = taken.block;
    if (sample.sequence == 0) {
        state.host_unrecorded_bytes.fetch_sub(sample.size_bytes, std::memory_order_relaxed);
        return;
    }
    if (has_ended.load(std::memory_order_relaxed) || state.failed.load(std::memory_order_relaxed)) {
        return;
    }
    const RecordingScope scope(true);
    if (scope) {
        append_end(state, sample, taken.resident_bytes);
    }
}

// Where a log is open anyway. A forked process that has copied much begins one for its last figure.
void write_figure_in_log(Moment moment) noexcept {
    ProcessState* const state = process_state;
    if (state == nullptr || !may_record(state)) {
        return;
    }
    const bool has_log = state->phase.load(std::memory_order_acquire) == CapturePhase::kOpen;
    if (!has_log &&
        !(moment == Moment::kEnd && is_forked(*state) && own_memory().private_bytes >= kPrivateWorthALogBytes)) {
        return;
    }
    const RecordingScope scope(false);
    if (scope) {
        measure_threads(*state, ThreadStacks::kMost);
        write_figure(scope, *state, moment, Heap::kIsFree);
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
    host_samples::write_figure_in_log(host_figures::Moment::kImported);
}

void forget_begin_of_program() noexcept {
    if (ProcessState* const state = process_state; state != nullptr) {
        host_figures::forget_begin(*state);
    }
}

void open_no_log_for_host_samples() noexcept {
    host_samples::opens_no_log.store(true, std::memory_order_relaxed);
    host_samples::fine_samples_left.store(0, std::memory_order_relaxed);
    host_samples::write_figure_in_log(host_figures::Moment::kImport);
}

void end_host_samples() noexcept {
    host_samples::write_figure_in_log(host_figures::Moment::kEnd);
    host_samples::has_ended.store(true, std::memory_order_relaxed);
    host_samples::is_sampling.store(false, std::memory_order_release);
}

void set_runs_own_code(bool runs) noexcept { thread_handle.runs_own_code = runs; }

}  // namespace recorder
}  // namespace msmemscope
