// A model of the caching allocators of torch and torch_npu. It says for each block which segment it gets, and which
// part.
//
// It is written from their documentation and from their behaviour. One thread, no device.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "offline/replay/allocator_settings.h"
#include "offline/replay/driver_model.h"

namespace msmemscope::replay {

struct Pool;

struct Block {
    static constexpr std::uint32_t kNobody = 0xffffffff;
    enum class State : std::uint8_t { kFree, kInUse, kWaiting };  // waiting: freed, other streams still use it

    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Block* before = nullptr;  // neighbours in the segment
    Block* after = nullptr;
    Pool* pool = nullptr;
    std::uint64_t born = 0;  // number of searches of the pool when it became free
    std::uint32_t segment = 0;
    std::uint32_t stream = 0;
    std::uint32_t holder = kNobody;  // number of the recorded block that has it
    State state = State::kFree;
    bool is_mapped = true;
    bool is_expandable = false;

    bool is_whole_segment() const { return before == nullptr && after == nullptr; }
    bool is_takeable() const { return state == State::kFree; }
};

struct BySize {
    bool operator()(const Block* one, const Block* other) const {
        return one->bytes != other->bytes ? one->bytes < other->bytes : one->address < other->address;
    }
};

struct ByAddress {
    bool operator()(const Block* one, const Block* other) const { return one->address < other->address; }
};

// The free blocks of one size class, by stream; private pools have their own.
struct Pool {
    bool is_small = false;
    bool is_released_by_owner = true;  // private pools keep their segments until their last user is gone
    std::uint64_t searches = 0;
    std::vector<std::set<Block*, BySize>> free;
    std::vector<std::set<Block*, ByAddress>> unmapped;
};

struct Segment {
    std::uint64_t address = 0;
    bool is_recorded = false;  // its address is that of the recording
};

// One segment that the real allocator got or gave back, where a recording has it.
struct RecordedSegments {
    // Of the event that is replayed: segments that were given back before the allocation, and where those lie that it
    // got.
    std::size_t released = 0;
    const std::uint64_t* addresses = nullptr;
    std::size_t address_count = 0;
};

// A part of a segment that is there when a replay begins, or goes on behind what is not known. Those of a segment
// follow each other, by address; in expandable ones there may be unmapped room between them.
struct HeldPart {
    std::uint64_t segment_address = 0;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t stream = 0;
    std::uint32_t pool = 0;  // 0: the common one
    std::uint32_t holder = Block::kNobody;
    Block::State state = Block::State::kFree;
    bool is_small = false;
    bool is_expandable = false;
};

enum class FailureReason : std::uint8_t { kNone, kFraction, kDriver };

struct Totals {
    std::uint64_t allocated_bytes = 0;  // of blocks in use
    std::uint64_t waiting_bytes = 0;
    std::uint64_t reserved_bytes = 0;
    std::uint64_t segments = 0;  // an expandable one counts once, however often it grows
};

class AllocatorModel {
public:
    AllocatorModel(const AllocatorSettings& settings, std::uint32_t streams, std::uint32_t private_pools);

    // Forgets what there is, and has these parts instead, which are those of a recording. Returns the block of each;
    // null if one lies in another or outside of its segment.
    std::vector<Block*> restore(const std::vector<HeldPart>& parts);

    // Null if there is no memory. `pool`: 0 is the common one.
    Block* allocate(std::uint64_t requested_bytes, std::uint32_t stream, std::uint32_t pool);
    void request_free(Block* block);
    void complete_free(Block* block);
    void empty_cache();
    // The last user of a private pool is gone: what is cached of it goes at once, the rest with the common one's.
    void give_up_pool(std::uint32_t pool);

    // Whether the next allocation follows the segments of a recording: then the driver has memory when it had some
    // there.
    void follow(const RecordedSegments* recorded) {
        recorded_ = recorded;
        consumed_releases_ = 0;
        consumed_addresses_ = 0;
    }

    const Totals& totals() const { return totals_; }
    std::uint64_t retries() const { return retries_; }
    FailureReason failure_reason() const { return failure_reason_; }
    // How the released segments of the latest allocation are explained, if it followed a recording. Segments that were
    // collected as garbage or too large to keep do not count.
    bool emptied_before() const { return emptied_before_; }
    bool released_within() const { return released_within_; }
    // The block that a search would find. Changes nothing.
    const Block* fitting(std::uint64_t block_bytes, std::uint32_t stream, std::uint32_t pool);
    std::uint64_t largest_free_bytes(std::uint32_t stream, std::uint32_t pool, bool small) const;
    std::uint64_t free_bytes() const {
        return totals_.reserved_bytes - totals_.allocated_bytes - totals_.waiting_bytes;
    }

private:
    Block* search(Pool& pool, std::uint32_t stream, std::uint64_t bytes);
    Block* candidate(Pool& pool, std::uint32_t stream, std::uint64_t bytes) const;
    Block* from_driver(Pool& pool, std::uint32_t stream, std::uint64_t bytes);
    Block* new_segment(Pool& pool, std::uint32_t stream, std::uint64_t segment_bytes);
    Block* cut(Block* block, std::uint64_t bytes);
    bool should_split(const Block& block, std::uint64_t bytes) const;
    void make_free(Block* block);
    void merge(Block* block, Block* neighbour);
    Block* split_off(Block* block, std::uint64_t bytes);
    void put(Block* block);
    void take_out(Block* block);

    void collect_garbage();
    bool release_oversize(Pool& pool, std::uint32_t stream, std::uint64_t bytes);
    void release_all();
    void release_pool(Pool& pool);
    void release_segment(Block* block);

    // Expandable segments, in expandable_segments.cpp.
    Block* grow(Pool& pool, std::uint32_t stream, std::uint64_t bytes);
    Block* growable(Pool& pool, std::uint32_t stream, std::uint64_t bytes);
    bool map(Block* block, std::uint64_t bytes);
    void unmap(Block* block);
    std::uint64_t chunk_bytes(const Pool& pool) const;

    void forget_all();
    Block* append_part(Block* before, const HeldPart& part, std::uint64_t address, std::uint64_t bytes, bool is_mapped);
    std::uint64_t reservation_bytes(const Pool& pool) const;

    bool take_from_driver(std::uint64_t bytes);
    bool place(Block* block);
    void forget_segment(Block* block);
    Pool& pool_of(std::uint32_t pool, bool small) { return pools_[2 * pool + (small ? 0 : 1)]; }
    Block* new_block();
    void forget(Block* block) { unused_.push_back(block); }

    AllocatorSettings settings_;
    DriverModel driver_;
    std::vector<Pool> pools_;  // small and large of each
    std::vector<Segment> segments_;
    std::deque<Block> blocks_;
    std::vector<Block*> unused_;
    std::set<Block*, ByAddress> waiting_;
    Totals totals_;
    std::uint64_t retries_ = 0;
    FailureReason failure_reason_ = FailureReason::kNone;
    const RecordedSegments* recorded_ = nullptr;
    std::size_t consumed_releases_ = 0;
    std::size_t consumed_addresses_ = 0;
    bool emptied_before_ = false;
    bool released_within_ = false;
};

}  // namespace msmemscope::replay
