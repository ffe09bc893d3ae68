#include "offline/replay/replay.h"

#include <algorithm>

namespace msmemscope::replay {
namespace {

Failure failure_of(AllocatorModel& model, const AllocatorSettings& settings, const Events& events, std::size_t event) {
    Failure found;
    const std::uint64_t bytes = settings.block_bytes(events.bytes[event]);
    const std::uint32_t stream = events.streams[event];
    const std::uint32_t pool = events.pools[event];
    found.is_there = true;
    found.event = event;
    found.reason = model.failure_reason();
    found.requested_bytes = events.bytes[event];
    found.block_bytes = bytes;
    found.segment_bytes = settings.segment_bytes(bytes);
    found.allocated_bytes = model.totals().allocated_bytes;
    found.reserved_bytes = model.totals().reserved_bytes;
    found.free_bytes = model.free_bytes();
    found.largest_free_bytes = model.largest_free_bytes(stream, pool, is_small(bytes));
    found.fits_after_release = model.fitting(bytes, stream, pool) != nullptr;
    return found;
}

class Player {
public:
    Player(const AllocatorSettings& settings, const Events& events, const RecordedColumns& recorded,
           const States* states)
        : settings_(settings),
          events_(events),
          recorded_(recorded),
          states_(states),
          model_(settings, events.stream_count, events.private_pools),
          blocks_(events.block_count, nullptr) {}

    Summary play(Course* course) {
        Summary summary;
        for (std::size_t event = 0; event < events_.count; ++event) {
            const bool goes_on = take(event, summary.failure);
            note(event, summary);
            if (course != nullptr) {
                add(*course, event);
            }
            summary.replayed_events = event + 1;
            if (!goes_on) {
                break;
            }
        }
        summary.end_allocated_bytes = model_.totals().allocated_bytes;
        summary.end_reserved_bytes = model_.totals().reserved_bytes;
        summary.retries = model_.retries();
        return summary;
    }

private:
    bool take(std::size_t event, Failure& failure) {
        inferred_ = Inferred::kNothing;
        if (states_ != nullptr && states_->leads_to_one[event] != 0) {
            return true;
        }
        const std::uint32_t number = events_.blocks[event];
        if (static_cast<Action>(events_.actions[event]) == Action::kRestore) {
            if (states_ != nullptr) {
                restore(states_->parts[number]);
            }
            return true;
        }
        Block*& block = blocks_[number];
        switch (static_cast<Action>(events_.actions[event])) {
            case Action::kAllocate:
                block = allocate(event);
                if (block == nullptr) {
                    note_failure(event, failure);
                    return false;
                }
                block->holder = number;
                return true;
            case Action::kFailedAllocation:
                try_failed(event, failure);
                return true;  // the program went on
            case Action::kRequestFree:
                if (block != nullptr && block->holder == number && block->state == Block::State::kInUse) {
                    model_.request_free(block);
                }
                return true;
            case Action::kCompleteFree:
                // Not if it was waited for earlier than in the recording: then its memory is another block's.
                if (block != nullptr && block->holder == number && block->state == Block::State::kWaiting) {
                    model_.complete_free(block);
                }
                block = nullptr;
                return true;
            case Action::kEmptyCache:
                model_.empty_cache();
                return true;
            case Action::kGiveUpPool:
                model_.give_up_pool(events_.pools[event]);
                return true;
            case Action::kRestore:
                return true;  // above
        }
        return true;
    }

    void restore(const std::vector<HeldPart>& parts) {
        std::fill(blocks_.begin(), blocks_.end(), nullptr);
        for (Block* const block : model_.restore(parts)) {
            if (block->holder != Block::kNobody) {
                blocks_[block->holder] = block;
            }
        }
    }

    Block* allocate(std::size_t event) {
        RecordedSegments segments;
        if (recorded_.released != nullptr) {
            segments.released = recorded_.released[event];
            segments.addresses = recorded_.addresses + recorded_.first_address[event];
            segments.address_count = recorded_.first_address[event + 1] - recorded_.first_address[event];
            model_.follow(&segments);
        }
        Block* const found = model_.allocate(events_.bytes[event], events_.streams[event], events_.pools[event]);
        if (recorded_.released != nullptr) {
            inferred_ = model_.emptied_before()    ? Inferred::kEmptiedBefore
                        : model_.released_within() ? Inferred::kReleasedWithin
                                                   : Inferred::kNothing;
            model_.follow(nullptr);
        }
        return found;
    }

    void try_failed(std::size_t event, Failure& failure) {
        if (recorded_.released != nullptr) {
            return;  // what it did to the cache stands there as events of their own
        }
        if (settings_.driver_bytes == kNoLimit && settings_.allowed_bytes == kNoLimit) {
            return;
        }
        Block* const found = model_.allocate(events_.bytes[event], events_.streams[event], events_.pools[event]);
        if (found == nullptr) {
            note_failure(event, failure);
            return;
        }
        inferred_ = Inferred::kFoundMemory;
        model_.request_free(found);
        model_.complete_free(found);
    }

    void note_failure(std::size_t event, Failure& failure) {
        if (!failure.is_there) {
            failure = failure_of(model_, settings_, events_, event);
        }
    }

    void note(std::size_t event, Summary& summary) const {
        const Totals& totals = model_.totals();
        if (totals.allocated_bytes > summary.peak_allocated_bytes) {
            summary.peak_allocated_bytes = totals.allocated_bytes;
            summary.peak_allocated_event = event;
        }
        if (totals.reserved_bytes > summary.peak_reserved_bytes) {
            summary.peak_reserved_bytes = totals.reserved_bytes;
            summary.peak_reserved_event = event;
            summary.allocated_at_peak_bytes = totals.allocated_bytes;
        }
        summary.most_segments = std::max(summary.most_segments, totals.segments);
    }

    void add(Course& course, std::size_t event) const {
        const bool is_passed = states_ != nullptr && states_->leads_to_one[event] != 0;
        const bool is_allocation = static_cast<Action>(events_.actions[event]) == Action::kAllocate && !is_passed;
        const Block* const block = is_allocation ? blocks_[events_.blocks[event]] : nullptr;
        course.addresses.push_back(block != nullptr ? block->address : 0);
        course.segments.push_back(block != nullptr ? block->segment : 0);
        course.block_bytes.push_back(block != nullptr ? block->bytes : 0);
        course.allocated_bytes.push_back(model_.totals().allocated_bytes);
        course.reserved_bytes.push_back(model_.totals().reserved_bytes);
        course.segment_counts.push_back(static_cast<std::uint32_t>(model_.totals().segments));
        course.inferred.push_back(static_cast<std::uint8_t>(inferred_));
    }

    const AllocatorSettings& settings_;
    const Events& events_;
    const RecordedColumns& recorded_;
    const States* states_;
    AllocatorModel model_;
    std::vector<Block*> blocks_;
    Inferred inferred_ = Inferred::kNothing;
};

}  // namespace

Summary replay(const AllocatorSettings& settings, const Events& events, const RecordedColumns& recorded,
               const States* states, Course* course) {
    return Player(settings, events, recorded, states).play(course);
}

}  // namespace msmemscope::replay
