// Segments that grow and shrink by chunks: addresses for more than the device has, mapped where blocks need it.
#include <algorithm>

#include "offline/replay/allocator_model.h"

namespace msmemscope::replay {

std::uint64_t AllocatorModel::chunk_bytes(const Pool& pool) const {
    if (pool.is_small) {
        return kSmallSegmentBytes;
    }
    return std::max(settings_.large_chunk_bytes, settings_.page_bytes);
}

std::uint64_t AllocatorModel::reservation_bytes(const Pool& pool) const {
    return rounded_up(settings_.device_bytes + settings_.device_bytes / 8, chunk_bytes(pool));
}

// The lowest unmapped block, or the free one right before it, if enough is free or unmapped from there on. Otherwise a
// new segment. Null if that would be too small, too, or finds no addresses.
Block* AllocatorModel::growable(Pool& pool, std::uint32_t stream, std::uint64_t bytes) {
    for (Block* const unmapped : pool.unmapped[stream]) {
        Block* const before = unmapped->before;
        Block* const first = before != nullptr && before->is_takeable() ? before : unmapped;
        std::uint64_t room = 0;
        for (const Block* block = first; block != nullptr && block->is_takeable() && room < bytes;
             block = block->after) {
            room += block->bytes;
        }
        if (room >= bytes) {
            return first;
        }
    }
    const std::uint64_t segment_bytes = reservation_bytes(pool);
    if (segment_bytes < bytes) {
        return nullptr;
    }
    Block* const block = new_block();
    block->bytes = segment_bytes;
    block->pool = &pool;
    block->stream = stream;
    block->is_mapped = false;
    block->is_expandable = true;
    if (!place(block)) {
        forget(block);
        return nullptr;
    }
    put(block);
    return block;
}

Block* AllocatorModel::grow(Pool& pool, std::uint32_t stream, std::uint64_t bytes) {
    Block* block = growable(pool, stream, bytes);
    if (block == nullptr) {
        return nullptr;
    }
    if (!block->is_mapped && !map(block, std::min(block->bytes, bytes))) {
        return nullptr;
    }
    while (block->bytes < bytes) {
        Block* const next = block->after;
        // Blocks that are mapped already have been merged with their neighbours.
        if (!map(next, std::min(next->bytes, bytes - block->bytes))) {
            return nullptr;
        }
        block = next;
    }
    take_out(block);
    return block;
}

bool AllocatorModel::map(Block* block, std::uint64_t bytes) {
    const std::uint64_t chunk = chunk_bytes(*block->pool);
    const std::uint64_t mapped = std::min(rounded_up(bytes, chunk), block->bytes);
    if (!take_from_driver(rounded_up(mapped, chunk))) {
        return false;
    }
    take_out(block);
    if (mapped < block->bytes) {
        put(split_off(block, mapped));
    }
    block->is_mapped = true;
    totals_.reserved_bytes += mapped;
    make_free(block);
    return true;
}

void AllocatorModel::unmap(Block* block) {
    const std::uint64_t chunk = chunk_bytes(*block->pool);
    const std::uint64_t base = segments_[block->segment].address;
    const std::uint64_t begin = base + rounded_up(block->address - base, chunk);
    const std::uint64_t end = base + (block->address + block->bytes - base) / chunk * chunk;
    if (end <= begin) {
        return;
    }
    take_out(block);
    if (begin > block->address) {
        Block* const front = block;
        block = split_off(front, begin - front->address);
        put(front);
    }
    if (end < block->address + block->bytes) {
        put(split_off(block, end - block->address));
    }
    totals_.reserved_bytes -= end - begin;
    driver_.give_bytes(end - begin);
    ++consumed_releases_;
    block->is_mapped = false;
    merge(block, block->before);
    merge(block, block->after);
    if (!block->is_whole_segment()) {
        put(block);
        return;
    }
    forget_segment(block);
}

}  // namespace msmemscope::replay
