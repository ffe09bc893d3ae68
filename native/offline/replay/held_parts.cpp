// The state that a recording begins with: segments and blocks as a snapshot of the allocator has them.
#include <algorithm>

#include "offline/replay/allocator_model.h"

namespace msmemscope::replay {
namespace {

// Whether a part continues the segment that the one before it is in.
bool continues(const HeldPart& part, const HeldPart& before) {
    return part.segment_address == before.segment_address && part.is_expandable == before.is_expandable &&
           part.is_small == before.is_small && part.stream == before.stream && part.pool == before.pool;
}

}  // namespace

void AllocatorModel::forget_all() {
    for (Pool& pool : pools_) {
        for (std::size_t stream = 0; stream < pool.free.size(); ++stream) {
            pool.free[stream].clear();
            pool.unmapped[stream].clear();
        }
    }
    waiting_.clear();
    unused_.clear();
    blocks_.clear();
    totals_ = {};
    driver_.reset();
}

// Puts a block behind another one of its segment; a new segment begins with it if there is none.
Block* AllocatorModel::append_part(Block* before, const HeldPart& part, std::uint64_t address, std::uint64_t bytes,
                                   bool is_mapped) {
    Block* const block = new_block();
    block->address = address;
    block->bytes = bytes;
    block->before = before;
    block->pool = &pool_of(part.pool, part.is_small);
    block->stream = part.stream;
    block->is_expandable = part.is_expandable;
    block->is_mapped = is_mapped;
    if (before != nullptr) {
        before->after = block;
        block->segment = before->segment;
    } else {
        block->segment = static_cast<std::uint32_t>(segments_.size());
        segments_.push_back({address, false});
        ++totals_.segments;
    }
    return block;
}

std::vector<Block*> AllocatorModel::restore(const std::vector<HeldPart>& parts) {
    forget_all();
    std::vector<Block*> found;
    found.reserve(parts.size());
    if (parts.empty()) {
        return found;
    }
    std::uint64_t lowest = parts.front().segment_address;
    for (const HeldPart& part : parts) {
        lowest = std::min(lowest, part.segment_address);
    }
    driver_.reset(lowest);
    Block* last = nullptr;
    std::uint64_t base = 0;  // of the segment
    const auto end_of = [](const Block* block) { return block->address + block->bytes; };
    // Takes the addresses of a segment; behind the last mapped part of an expandable one there are more.
    const auto finish = [&](const HeldPart& part) {
        const std::uint64_t used = end_of(last) - base;
        const std::uint64_t whole = part.is_expandable ? std::max(reservation_bytes(*last->pool), used) : used;
        driver_.hold(base, whole);
        if (used < whole) {
            put(append_part(last, part, end_of(last), whole - used, false));
        }
    };
    for (std::size_t index = 0; index < parts.size(); ++index) {
        const HeldPart& part = parts[index];
        const bool is_known = index > 0 && continues(part, parts[index - 1]);
        // A part that reaches beyond the addresses of one segment belongs to the next one.
        const bool is_same =
            is_known && (!part.is_expandable || part.address - base + part.bytes <= reservation_bytes(*last->pool));
        if (!is_same) {
            if (last != nullptr) {
                finish(parts[index - 1]);
            }
            last = nullptr;
            base = is_known ? part.address : part.segment_address;
        }
        const std::uint64_t here = last != nullptr ? end_of(last) : base;
        if (part.address < here || part.bytes > kMostRequestBytes || (part.address > here && !part.is_expandable)) {
            return {};
        }
        if (part.address > here) {
            last = append_part(last, part, here, part.address - here, false);
            put(last);
        }
        last = append_part(last, part, part.address, part.bytes, true);
        driver_.hold_bytes(part.bytes);
        last->holder = part.holder;
        last->state = part.state;
        totals_.reserved_bytes += part.bytes;
        if (part.state == Block::State::kFree) {
            put(last);
        } else if (part.state == Block::State::kWaiting) {
            totals_.waiting_bytes += part.bytes;
            waiting_.insert(last);
        } else {
            totals_.allocated_bytes += part.bytes;
        }
        found.push_back(last);
    }
    finish(parts.back());
    return found;
}

}  // namespace msmemscope::replay
