#include "core/observe/resident_blocks.h"

#include <algorithm>

#include "core/writer/resident_pages.h"

namespace msmemscope::resident_blocks {
namespace {

// Smaller blocks are touched as a whole, or little is lost.
constexpr std::uint64_t kLeastBytes = 64UL << 10U;
// Asking takes two microseconds per piece, of a megabyte.
constexpr std::size_t kPiecesAtFree = 4;
constexpr std::size_t kPieces = 64;
constexpr std::uint64_t kFirstPauseNs = 1'000'000'000;
constexpr std::uint64_t kShareOfTime = 100;
// That are asked for in the middle of an allocation of the program.
constexpr std::size_t kMostSamples = 4096;
// A change is told if it is at least so much of the block.
constexpr std::uint64_t kLeastChange = 16;
// `labels` of a sample: the steps of 1 / kLeastChange^2 of it that are known to be in memory, plus 1; 0: all of it.
constexpr std::uint32_t kSteps = kLeastChange * kLeastChange;

bool is_asked(const LiveBlock& block) noexcept {
    return block.sequence != 0 && block.size_bytes >= kLeastBytes && block.labels != kNotAsked;
}

void tell_of_samples(ProcessState& state, std::size_t most) noexcept {
    state.host_samples.for_each([&](const LiveBlock& sample) {
        if (!is_asked(sample) || most == 0) {
            return;
        }
        --most;
        const std::uint64_t bytes = resident_bytes(sample.address, sample.size_bytes, kPieces);
        const double share = static_cast<double>(bytes) / static_cast<double>(sample.size_bytes);
        const auto found = static_cast<std::uint32_t>(share * kSteps);
        const std::uint32_t known = sample.labels == 0 ? kSteps : sample.labels - 1;
        if (std::max(found, known) - std::min(found, known) >= kSteps / kLeastChange) {
            write(state, format::EventKind::kHostResident, sample, bytes);
            state.host_samples.set_labels(sample, found + 1);
        }
    });
}

void tell_of_tensors(ProcessState& state) noexcept {
    state.live_blocks.for_each([&](const LiveBlock& block) {
        if (block.pool != format::Pool::kHost || block.sequence == 0 || block.size_bytes < kLeastBytes) {
            return;
        }
        const std::uint64_t bytes = resident_bytes(block.address, block.size_bytes, kPieces);
        if (bytes < block.size_bytes - block.size_bytes / kLeastChange) {
            write(state, format::EventKind::kHostResident, block, bytes);
        }
    });
}

}  // namespace

std::uint64_t of_sample(const LiveBlock& sample) noexcept {
    return is_asked(sample) ? resident_bytes(sample.address, sample.size_bytes, kPiecesAtFree) : sample.size_bytes;
}

void write(ProcessState& state, format::EventKind kind, const LiveBlock& block, std::uint64_t resident_bytes) noexcept {
    Event event{kind};
    event.address = block.address;
    event.size = static_cast<std::int64_t>(resident_bytes);
    event.extra = block.sequence;
    append_here(state, event);
}

void tell(ProcessState& state, Asking asking) noexcept {
    const std::uint64_t now = clock_ns();
    if (asking != Asking::kIfDue) {
        if (asking == Asking::kNearLimit && now < state.resident_near_limit_ns.load(std::memory_order_relaxed)) {
            return;
        }
        tell_of_samples(state, SIZE_MAX);
        // Facts about tensors are not kept: they could not be taken back.
        tell_of_tensors(state);
        const std::uint64_t end = clock_ns();
        state.resident_near_limit_ns.store(end + kShareOfTime * (end - now), std::memory_order_relaxed);
        return;
    }
    std::uint64_t begin = 0;
    if (state.resident_begin_ns.compare_exchange_strong(begin, now, std::memory_order_relaxed)) {
        state.resident_due_ns.store(now + kFirstPauseNs, std::memory_order_relaxed);
        return;
    }
    std::uint64_t due = state.resident_due_ns.load(std::memory_order_relaxed);
    if (now >= due &&
        state.resident_due_ns.compare_exchange_strong(due, now + (now - begin), std::memory_order_relaxed)) {
        tell_of_samples(state, kMostSamples);
    }
}

}  // namespace msmemscope::resident_blocks
