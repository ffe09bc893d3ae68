#include "sources/program_marks.h"

#include <atomic>
#include <cstring>

#include "core/writer/steps.h"

namespace msmemscope::program_marks {
namespace {

constexpr const char* kStepMessage = "step start";

std::atomic<std::uint64_t> next_range{1};

void record(format::EventKind kind, const char* message, void* stream, std::uint64_t range, PlaceEvent place) noexcept {
    const RecordingScope scope(recorder::is_collecting());
    if (!scope || !recorder::is_collecting()) {
        return;
    }
    Event event{kind};
    if (!place(scope, stream, event)) {
        return;
    }
    if (message != nullptr && *message != '\0') {
        event.name_id = recorder::intern_string(scope, message, std::strlen(message));
    }
    event.extra = range;
    recorder::append(scope, event);
}

}  // namespace

void mark(const char* message, void* stream, PlaceEvent place) noexcept {
    record(format::EventKind::kMark, message, stream, 0, place);
}

std::uint64_t begin_range(const char* message, void* stream, PlaceEvent place) noexcept {
    if (!recorder::is_configured()) {
        return 0;
    }
    // A range that begins unrecorded has a number all the same: it can be a step, and its end can be recorded.
    const std::uint64_t range = next_range.fetch_add(1, std::memory_order_relaxed);
    if (message != nullptr && std::strcmp(message, kStepMessage) == 0) {
        steps::begin_range(range);
    }
    record(format::EventKind::kRangeStart, message, stream, range, place);
    return range;
}

void end_range(std::uint64_t range, PlaceEvent place) noexcept {
    if (range == 0) {
        return;
    }
    record(format::EventKind::kRangeEnd, nullptr, nullptr, range, place);
    steps::end_range(range);
}

}  // namespace msmemscope::program_marks
