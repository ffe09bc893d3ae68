#include "core/writer/steps.h"

#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstdio>

#include "core/writer/attributes.h"
#include "core/writer/keep_errno.h"
#include "core/writer/process_memory.h"
#include "core/writer/process_state.h"

namespace msmemscope {
namespace {

enum class Source : std::uint32_t { kNone, kCalls, kRanges };

// Like the settings, all of this passes to a forked child: it is in the step in which it was forked.
std::atomic<bool> is_tracing{false};
std::atomic<Source> source{Source::kNone};
std::atomic<bool> other_source_is_reported{false};
std::atomic<std::uint32_t> begun_ranges{0};
std::atomic<std::uint32_t> ended_steps{0};
std::atomic<steps::ImpliedSource> implied_source{steps::ImpliedSource::kNone};
std::atomic<std::uint32_t> implied_steps{0};

struct OpenStep {
    std::atomic<std::uint64_t> range;  // 0: free
    std::atomic<std::uint32_t> number;
};
constexpr std::size_t kMostOpenSteps = 64;
OpenStep open_steps[kMostOpenSteps];

bool is_chosen(const Settings& settings, std::uint32_t step) noexcept {
    for (std::uint32_t index = 0; index < settings.step_count; ++index) {
        if (settings.steps[index] == step) {
            return true;
        }
    }
    return false;
}

// If certain steps are wanted, events may have been collected too early. Step 1 of msmemscope.step() may have been
// running, or steps were implied until the program told of its own. The user did not ask for these events, so they are
// taken back. Returns whether there were any. If so, nothing is collected afterwards.
bool take_back_what_came_before(const RecordingScope& scope) noexcept {
    if (recorder::settings().step_count == 0 || !recorder::is_collecting()) {
        return false;
    }
    recorder::stop_collecting(scope);
    recorder::take_back(scope);
    return true;
}

bool is_source(Source wanted) noexcept {
    Source before = Source::kNone;
    if (source.compare_exchange_strong(before, wanted, std::memory_order_acq_rel)) {
        // The first call of msmemscope.step() ends step 1, which was running all the time.
        const RecordingScope scope(false);
        if (scope && (wanted == Source::kRanges || !is_chosen(recorder::settings(), 1))) {
            const BoundedLockGuard guard(process_state->step_lock);
            if (guard) {
                take_back_what_came_before(scope);
            }
        }
        return true;
    }
    if (before == wanted) {
        return true;
    }
    if (!other_source_is_reported.exchange(true, std::memory_order_acq_rel)) {
        recorder::warn(wanted == Source::kCalls
                           ? "msmemscope.step() is ignored: ranges \"step start\" are this program's steps"
                           : "ranges \"step start\" are no steps: this program's steps are msmemscope.step()");
    }
    return false;
}

bool runs_chosen_step() noexcept {
    const Settings& settings = recorder::settings();
    if (settings.step_count == 0) {
        return true;
    }
    const Source steps_by = source.load(std::memory_order_acquire);
    if (steps_by == Source::kNone) {
        // The first implied step may turn out to be a part of the first one that the program tells of: that is kept
        // whole.
        const std::uint32_t ended = implied_steps.load(std::memory_order_relaxed);
        return is_chosen(settings, ended + 1) || (ended == 1 && is_chosen(settings, 1));
    }
    if (steps_by == Source::kCalls) {
        return is_chosen(settings, ended_steps.load(std::memory_order_relaxed) + 1);
    }
    for (const OpenStep& step : open_steps) {
        if (step.range.load(std::memory_order_acquire) != 0 &&
            is_chosen(settings, step.number.load(std::memory_order_relaxed))) {
            return true;
        }
    }
    return false;
}

// The kernel takes microseconds to say it, short steps not much longer: asked about a thousand times a second at most.
constexpr std::uint64_t kBetweenFiguresNs = 1000000;
std::atomic<std::uint64_t> figure_ns{0};

// Adds how much of this process's memory belongs to no file, and how much of that the heap keeps. Adds nothing if that
// was asked just now.
void add_host_memory(Event& event) noexcept {
    const std::uint64_t now = recorder::now_ns();
    std::uint64_t last = figure_ns.load(std::memory_order_relaxed);
    if (now - last < kBetweenFiguresNs || !figure_ns.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
        return;
    }
    const KeepErrno keep_errno;
    event.extra = process_memory().anonymous;
    event.address = kept_by_the_heap(&process_state->heap_pages, false);
}

// Collects from here on, or not, as the running step wants it.
void apply() noexcept {
    const RecordingScope scope(false);
    if (!scope) {
        return;
    }
    const BoundedLockGuard guard(process_state->step_lock);
    const bool wanted = is_tracing.load(std::memory_order_acquire) && runs_chosen_step();
    if (!guard || wanted == recorder::is_collecting()) {
        return;
    }
    if (wanted) {
        recorder::start_collecting(scope);
    } else {
        recorder::stop_collecting(scope);
    }
}

void write_implied_step(steps::ImpliedSource by, format::Device device, std::uint32_t number) noexcept {
    const RecordingScope scope(true);
    if (scope) {
        Event event{format::EventKind::kImpliedStep};
        event.device = device;
        event.size = number;
        add_host_memory(event);
        const bool is_optimizer = by == steps::ImpliedSource::kOptimizer;
        event.attribute_id =
            Attributes(scope).text(format::AttributeKey::kStepSource, is_optimizer ? "optimizer" : "module").id();
        recorder::append(scope, event);
    }
}

}  // namespace

void note_immediate_tracing() noexcept { is_tracing.store(true, std::memory_order_release); }

namespace steps {

void begin_tracing() noexcept {
    is_tracing.store(true, std::memory_order_release);
    apply();
}

void begin_first_step() noexcept {
    if (source.load(std::memory_order_acquire) != Source::kNone) {
        return;
    }
    const RecordingScope scope(false);
    if (!scope) {
        return;
    }
    const BoundedLockGuard guard(process_state->step_lock);
    if (guard && take_back_what_came_before(scope)) {
        implied_steps.store(0, std::memory_order_relaxed);
        recorder::start_collecting(scope);  // step 1 is wanted, or nothing would have been collected
    }
}

void end_tracing() noexcept {
    is_tracing.store(false, std::memory_order_release);
    apply();
}

std::uint32_t end_step(format::Device device) noexcept {
    if (!is_source(Source::kCalls)) {
        return 0;
    }
    const std::uint32_t ended = ended_steps.fetch_add(1, std::memory_order_acq_rel) + 1;
    {
        const RecordingScope scope(true);
        if (scope) {
            Event event{format::EventKind::kStep};
            event.device = device;
            event.size = ended;
            add_host_memory(event);
            recorder::append(scope, event);
        }
    }
    apply();
    return ended;
}

void begin_range(std::uint64_t range) noexcept {
    if (!is_tracing.load(std::memory_order_acquire) || !is_source(Source::kRanges)) {
        return;
    }
    const std::uint32_t number = begun_ranges.fetch_add(1, std::memory_order_acq_rel) + 1;
    {
        const BoundedLockGuard guard(process_state->step_lock);
        for (OpenStep& step : open_steps) {
            // With no room left, the step is not seen to run: steps without an end are a fault of the program.
            if (guard && step.range.load(std::memory_order_relaxed) == 0) {
                step.number.store(number, std::memory_order_relaxed);
                step.range.store(range, std::memory_order_release);
                break;
            }
        }
    }
    apply();
}

void end_range(std::uint64_t range) noexcept {
    if (!are_ranges()) {
        return;
    }
    for (OpenStep& step : open_steps) {
        std::uint64_t found = range;
        if (step.range.compare_exchange_strong(found, 0, std::memory_order_acq_rel)) {
            ended_steps.fetch_add(1, std::memory_order_acq_rel);
            apply();
            return;
        }
    }
}

bool are_undecided() noexcept {
    return recorder::settings().step_count != 0 && source.load(std::memory_order_relaxed) == Source::kNone;
}

bool imply_step(ImpliedSource wanted, format::Device device) noexcept {
    if (source.load(std::memory_order_acquire) != Source::kNone) {
        return false;
    }
    if (!is_tracing.load(std::memory_order_acquire)) {
        return true;
    }
    ImpliedSource before = implied_source.load(std::memory_order_acquire);
    while (before < wanted && !implied_source.compare_exchange_weak(before, wanted, std::memory_order_acq_rel)) {
    }
    if (before > wanted) {
        return false;
    }
    if (before < wanted) {
        implied_steps.store(0, std::memory_order_relaxed);
    }
    const std::uint32_t ended = implied_steps.fetch_add(1, std::memory_order_acq_rel) + 1;
    write_implied_step(wanted, device, ended);
    if (recorder::settings().step_count != 0) {
        apply();
    }
    return true;
}

bool are_ranges() noexcept { return source.load(std::memory_order_acquire) == Source::kRanges; }

void note_extent() noexcept {
    if (recorder::settings().step_count == 0) {
        return;
    }
    const bool are_implied = source.load(std::memory_order_acquire) == Source::kNone;
    const std::uint32_t ended = (are_implied ? implied_steps : ended_steps).load(std::memory_order_acquire);
    const bool by_ranges = are_ranges();
    char number[16];
    std::snprintf(number, sizeof(number), "%" PRIu32, ended);
    recorder::note_fact("steps.ended", number);
    std::snprintf(number, sizeof(number), "%" PRIu32, by_ranges ? begun_ranges.load() : ended + 1);
    recorder::note_fact("steps.begun", number);
}

}  // namespace steps
}  // namespace msmemscope
