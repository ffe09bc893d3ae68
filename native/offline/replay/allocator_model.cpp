#include "offline/replay/allocator_model.h"

#include <algorithm>
#include <iterator>
#include <optional>

namespace msmemscope::replay {

AllocatorModel::AllocatorModel(const AllocatorSettings& settings, std::uint32_t streams, std::uint32_t private_pools)
    : settings_(settings),
      driver_(settings.driver_bytes, settings.address_order),
      pools_(2 * (std::size_t{1} + private_pools)) {
    for (std::size_t index = 0; index < pools_.size(); ++index) {
        pools_[index].is_small = index % 2 == 0;
        pools_[index].is_released_by_owner = index < 2;
        pools_[index].free.resize(streams);
        pools_[index].unmapped.resize(streams);
    }
}

Block* AllocatorModel::new_block() {
    if (unused_.empty()) {
        return &blocks_.emplace_back();
    }
    Block* const block = unused_.back();
    unused_.pop_back();
    *block = Block{};
    return block;
}

void AllocatorModel::put(Block* block) {
    if (!block->is_mapped) {
        block->pool->unmapped[block->stream].insert(block);
        return;
    }
    block->born = block->pool->searches;
    block->pool->free[block->stream].insert(block);
}

void AllocatorModel::take_out(Block* block) {
    if (block->is_mapped) {
        block->pool->free[block->stream].erase(block);
    } else {
        block->pool->unmapped[block->stream].erase(block);
    }
}

bool AllocatorModel::take_from_driver(std::uint64_t bytes) {
    if (recorded_ != nullptr && consumed_releases_ < recorded_->released) {
        return false;
    }
    return driver_.take_bytes(bytes);
}

bool AllocatorModel::place(Block* block) {
    const bool is_recorded = recorded_ != nullptr && consumed_addresses_ < recorded_->address_count;
    const std::optional<std::uint64_t> address =
        is_recorded ? recorded_->addresses[consumed_addresses_++] : driver_.place(block->bytes);
    if (!address) {
        return false;
    }
    block->address = *address;
    block->segment = static_cast<std::uint32_t>(segments_.size());
    segments_.push_back({block->address, is_recorded});
    ++totals_.segments;
    return true;
}

void AllocatorModel::forget_segment(Block* block) {
    if (!segments_[block->segment].is_recorded) {
        driver_.vacate(block->address, block->bytes);
    }
    --totals_.segments;
    forget(block);
}

Block* AllocatorModel::allocate(std::uint64_t requested_bytes, std::uint32_t stream, std::uint32_t pool_number) {
    const std::uint64_t bytes = settings_.block_bytes(requested_bytes);
    Pool& pool = pool_of(pool_number, is_small(bytes));
    failure_reason_ = FailureReason::kNone;
    emptied_before_ = false;
    released_within_ = false;
    if (requested_bytes > kMostRequestBytes) {
        failure_reason_ = FailureReason::kDriver;
        return nullptr;
    }
    if (recorded_ != nullptr && recorded_->released > 0 && candidate(pool, stream, bytes) != nullptr) {
        empty_cache();
        consumed_releases_ = recorded_->released;
        // A fitting block is free now, and the recorded allocator did not take it. So it waited for that block within
        // the allocation. Then it does not search again.
        released_within_ = recorded_->address_count > 0 && candidate(pool, stream, bytes) != nullptr;
        emptied_before_ = !released_within_;
        retries_ += released_within_ ? 1 : 0;
    }
    Block* found = released_within_ ? nullptr : search(pool, stream, bytes);
    if (found == nullptr) {
        collect_garbage();
        found = from_driver(pool, stream, bytes);
    }
    if (found == nullptr && release_oversize(pool, stream, bytes)) {
        found = from_driver(pool, stream, bytes);
    }
    if (found == nullptr) {
        ++retries_;
        release_all();
        if (recorded_ != nullptr) {
            released_within_ = recorded_->released > 0;
            consumed_releases_ = std::max(consumed_releases_, recorded_->released);
        }
        found = from_driver(pool, stream, bytes);
    }
    if (found == nullptr) {
        return nullptr;
    }
    return cut(found, bytes);
}

Block* AllocatorModel::candidate(Pool& pool, std::uint32_t stream, std::uint64_t bytes) const {
    const auto& free = pool.free[stream];
    Block key;
    key.bytes = bytes;
    auto place = free.lower_bound(&key);
    if (place == free.end()) {
        return nullptr;
    }
    if ((*place)->is_expandable && settings_.is_expandable) {
        // The smallest counts with the room that it could grow into.
        const auto reach = [](const Block* block) {
            return block->bytes + (block->after != nullptr && !block->after->is_mapped ? block->after->bytes : 0);
        };
        for (auto next = std::next(place);
             (*place)->is_expandable && next != free.end() && reach(*next) < reach(*place); ++next) {
            place = next;
        }
    }
    const std::uint64_t most = settings_.most_split_bytes;
    const std::uint64_t found = (*place)->bytes;
    if ((bytes < most && found >= most) || (bytes >= most && found >= bytes + settings_.most_unsplit_rest_bytes)) {
        return nullptr;
    }
    return *place;
}

Block* AllocatorModel::search(Pool& pool, std::uint32_t stream, std::uint64_t bytes) {
    if (settings_.collection_threshold > 0 && settings_.allowed_bytes != kNoLimit) {
        ++pool.searches;
    }
    Block* const found = candidate(pool, stream, bytes);
    if (found != nullptr) {
        take_out(found);
    }
    return found;
}

const Block* AllocatorModel::fitting(std::uint64_t block_bytes, std::uint32_t stream, std::uint32_t pool) {
    return candidate(pool_of(pool, is_small(block_bytes)), stream, block_bytes);
}

std::uint64_t AllocatorModel::largest_free_bytes(std::uint32_t stream, std::uint32_t pool, bool small) const {
    const auto& free = pools_[2 * pool + (small ? 0 : 1)].free[stream];
    return free.empty() ? 0 : (*free.rbegin())->bytes;
}

Block* AllocatorModel::from_driver(Pool& pool, std::uint32_t stream, std::uint64_t bytes) {
    const std::uint64_t segment_bytes = settings_.segment_bytes(bytes);
    if (settings_.allowed_bytes != kNoLimit && totals_.reserved_bytes + segment_bytes > settings_.allowed_bytes) {
        failure_reason_ = FailureReason::kFraction;
        return nullptr;
    }
    Block* const found = settings_.is_expandable ? grow(pool, stream, bytes) : new_segment(pool, stream, segment_bytes);
    if (found == nullptr) {
        failure_reason_ = FailureReason::kDriver;
    }
    return found;
}

Block* AllocatorModel::new_segment(Pool& pool, std::uint32_t stream, std::uint64_t segment_bytes) {
    if (!take_from_driver(segment_bytes)) {
        return nullptr;
    }
    Block* const block = new_block();
    block->bytes = segment_bytes;
    block->pool = &pool;
    block->stream = stream;
    if (!place(block)) {
        driver_.give_bytes(segment_bytes);
        forget(block);
        return nullptr;
    }
    totals_.reserved_bytes += segment_bytes;
    return block;
}

bool AllocatorModel::should_split(const Block& block, std::uint64_t bytes) const {
    const std::uint64_t rest = block.bytes - bytes;
    if (block.pool->is_small || settings_.is_expandable) {
        return rest >= kBlockUnit;
    }
    return bytes < settings_.most_split_bytes && rest > kMostSmallBytes;
}

// Leaves a block its first bytes, and returns a further one with the rest.
Block* AllocatorModel::split_off(Block* block, std::uint64_t bytes) {
    Block* const rest = new_block();
    *rest = *block;
    rest->address += bytes;
    rest->bytes -= bytes;
    rest->before = block;
    if (rest->after != nullptr) {
        rest->after->before = rest;
    }
    block->bytes = bytes;
    block->after = rest;
    return rest;
}

Block* AllocatorModel::cut(Block* block, std::uint64_t bytes) {
    const std::uint64_t unit = settings_.front_alignment_bytes;
    if (unit != 0 && settings_.is_expandable && bytes >= kSmallSegmentBytes && block->address % unit != 0) {
        const std::uint64_t sliver = unit - block->address % unit;
        if (block->bytes >= sliver + bytes) {
            Block* const front = block;
            block = split_off(front, sliver);
            put(front);
        }
    }
    if (should_split(*block, bytes)) {
        put(split_off(block, bytes));
    }
    block->state = Block::State::kInUse;
    totals_.allocated_bytes += block->bytes;
    return block;
}

void AllocatorModel::request_free(Block* block) {
    block->state = Block::State::kWaiting;
    totals_.allocated_bytes -= block->bytes;
    totals_.waiting_bytes += block->bytes;
    waiting_.insert(block);
}

void AllocatorModel::complete_free(Block* block) {
    totals_.waiting_bytes -= block->bytes;
    waiting_.erase(block);
    make_free(block);
}

void AllocatorModel::make_free(Block* block) {
    block->state = Block::State::kFree;
    block->holder = Block::kNobody;
    merge(block, block->before);
    merge(block, block->after);
    put(block);
}

void AllocatorModel::merge(Block* block, Block* neighbour) {
    if (neighbour == nullptr || !neighbour->is_takeable() || neighbour->is_mapped != block->is_mapped) {
        return;
    }
    take_out(neighbour);
    if (neighbour == block->before) {
        block->address = neighbour->address;
        block->before = neighbour->before;
        if (block->before != nullptr) {
            block->before->after = block;
        }
    } else {
        block->after = neighbour->after;
        if (block->after != nullptr) {
            block->after->before = block;
        }
    }
    block->bytes += neighbour->bytes;
    forget(neighbour);
}

void AllocatorModel::empty_cache() { release_all(); }

void AllocatorModel::give_up_pool(std::uint32_t pool) {
    for (const bool is_small : {true, false}) {
        Pool& given_up = pool_of(pool, is_small);
        given_up.is_released_by_owner = true;
        release_pool(given_up);
    }
}

void AllocatorModel::collect_garbage() {
    if (settings_.collection_threshold <= 0 || settings_.allowed_bytes == kNoLimit) {
        return;
    }
    const auto most =
        static_cast<std::uint64_t>(settings_.collection_threshold * static_cast<double>(settings_.allowed_bytes));
    if (totals_.reserved_bytes <= most) {
        return;
    }
    const std::uint64_t wanted = totals_.reserved_bytes - most;
    Pool& pool = pool_of(0, false);
    std::vector<Block*> whole;
    double ages = 0.0;
    const auto age = [&pool](const Block* block) { return static_cast<double>(pool.searches - block->born); };
    for (const auto& free : pool.free) {
        for (Block* const block : free) {
            if (block->is_whole_segment() && !block->is_expandable) {
                whole.push_back(block);
                ages += age(block);
            }
        }
    }
    std::uint64_t released = 0;
    while (released < wanted && !whole.empty()) {
        const double least = ages / static_cast<double>(whole.size());
        std::vector<Block*> kept;
        for (Block* const block : whole) {
            if (age(block) < least) {
                kept.push_back(block);
                continue;
            }
            released += block->bytes;
            ages -= age(block);
            release_segment(block);
        }
        if (kept.size() == whole.size()) {
            return;
        }
        whole = std::move(kept);
    }
}

bool AllocatorModel::release_oversize(Pool& pool, std::uint32_t stream, std::uint64_t bytes) {
    if (settings_.most_split_bytes == kNoLimit) {
        return false;
    }
    auto& free = pool.free[stream];
    const std::uint64_t wanted = std::max(bytes, settings_.most_split_bytes);
    Block key;
    key.bytes = wanted;
    const auto large_enough = free.lower_bound(&key);
    if (large_enough != free.end()) {
        if ((*large_enough)->is_whole_segment()) {
            release_segment(*large_enough);
            return true;
        }
        return false;
    }
    // None is large enough alone: the largest ones, until they are together.
    std::uint64_t released = 0;
    while (released < wanted && !free.empty()) {
        Block* const largest = *free.rbegin();
        if (largest->bytes < settings_.most_split_bytes || !largest->is_whole_segment()) {
            break;
        }
        released += largest->bytes;
        release_segment(largest);
    }
    return released >= wanted;
}

void AllocatorModel::release_all() {
    // Blocks that other streams use are waited for.
    const std::vector<Block*> waiting(waiting_.begin(), waiting_.end());
    for (Block* const block : waiting) {
        complete_free(block);
    }
    for (Pool& pool : pools_) {
        if (pool.is_released_by_owner) {
            release_pool(pool);
        }
    }
}

void AllocatorModel::release_pool(Pool& pool) {
    for (auto& free : pool.free) {
        const std::vector<Block*> blocks(free.begin(), free.end());
        for (Block* const block : blocks) {
            if (block->is_expandable) {
                unmap(block);
            } else if (block->is_whole_segment()) {
                release_segment(block);
            }
        }
    }
}

void AllocatorModel::release_segment(Block* block) {
    take_out(block);
    driver_.give_bytes(block->bytes);
    totals_.reserved_bytes -= block->bytes;
    ++consumed_releases_;
    forget_segment(block);
}

}  // namespace msmemscope::replay
