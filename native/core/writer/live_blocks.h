// The blocks that are alive now: address -> size and the sequence number of the MALLOC.
//
// This table:
// - tells a tensor's free() from any other free();
// - finds the block of an access;
// - remembers allocations while nothing was collected;
// - says which MALLOC records the flight recorder must keep.
//
// It is lock-free. A program never frees an address before the allocation returned it. So two threads work on the same
// key only through a happens-before edge of the program. Threads contend only for free slots, and compare-and-swap
// decides.
//
// A bucket of eight keys is one cache line. Each key has two buckets per level. A full pair of buckets spills into the
// next, larger level. There are no tombstones: a lookup always reads whole buckets. Memory lies in pages that fork
// wipes, so a child starts empty.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope {

struct LiveBlock {
    std::uint64_t address;
    std::uint64_t size_bytes;
    // Sequence number of the block's MALLOC record; 0 while it has none.
    std::uint64_t sequence;
    format::Pool pool;
    format::Device device;
    // Both are numbers of texts (see texts.h), or 0 for none. Of a block without a MALLOC record, attributes are the
    // allocator's facts about it, and labels all of its labels. Of another block, labels are those that were given
    // last.
    std::uint32_t attributes = 0;
    std::uint32_t labels = 0;
};

class LiveBlocks {
public:
    // 511 * 2048 buckets of 8: about eight million blocks, 270 MB if all are alive at once.
    static constexpr unsigned kLevels = 9;
    static constexpr std::size_t kFirstLevelBuckets = 2048;

    // False if the table is full or memory for it is refused; the block is then not known.
    bool insert(const LiveBlock& block) noexcept;

    // Takes the block out. False if it is not known. end_number(block): the number of its FREE, which stays in its
    // place; 0 if it has none.
    template <typename EndNumber>
    bool remove(format::Pool pool, std::uint64_t address, LiveBlock& block, EndNumber end_number) noexcept {
        Bucket* bucket = nullptr;
        unsigned slot = 0;
        if (!locate(key_of(pool, address), bucket, slot)) {
            return false;
        }
        read_removed(*bucket, slot, block);
        const std::uint64_t number = end_number(static_cast<const LiveBlock&>(block));
        if (number != 0) {
            // Nobody may take it for the number of the block's MALLOC.
            bucket->keys[slot].store(kFilling, std::memory_order_relaxed);
            bucket->sequences[slot].store(number, std::memory_order_release);
        }
        bucket->keys[slot].store(0, std::memory_order_release);
        return true;
    }

    bool remove(format::Pool pool, std::uint64_t address, LiveBlock& block) noexcept {
        return remove(pool, address, block, no_number);
    }
    static std::uint64_t no_number(const LiveBlock& block) noexcept {
        static_cast<void>(block);
        return 0;
    }

    // The largest of the numbers that lie in the places where a block of this address can be. No FREE of an earlier
    // block of the address has a larger one. If more than two buckets had to be read, the result is larger than all
    // numbers.
    std::uint64_t latest_number_at(format::Pool pool, std::uint64_t address) const noexcept;

    bool find(format::Pool pool, std::uint64_t address, LiveBlock& block) const noexcept;

    // The block that an address lies in. Reads the whole table: for rare questions.
    bool find_around(std::uint64_t address, LiveBlock& block) const noexcept;

    // Gives a live block other labels; nothing happens if it is gone.
    void set_labels(const LiveBlock& block, std::uint32_t labels) noexcept;

    // Bytes of all live blocks of a pool on a device. Reads the whole table.
    std::uint64_t live_bytes(format::Pool pool, format::Device device) const noexcept;

    // No block has a MALLOC record any more.
    void forget_sequences() noexcept;

    // Gives a block that has no MALLOC record this sequence number. False if it is gone, or has one.
    bool claim_one(LiveBlock& block, std::uint64_t sequence) noexcept;

    // Calls visit(const LiveBlock&) for each live block. Blocks that come or go meanwhile may be missed.
    template <typename Visit>
    void for_each(Visit visit) const noexcept {
        for (unsigned level = 0; level < kLevels; ++level) {
            const Level view = level_view(level);
            for (std::size_t bucket = 0; view.buckets != nullptr && bucket < view.count; ++bucket) {
                for (unsigned slot = 0; slot < kSlots; ++slot) {
                    LiveBlock block{};
                    if (read_live(view.buckets[bucket], slot, block)) {
                        visit(block);
                    }
                }
            }
        }
    }

    // Calls assign(LiveBlock&) for each block that has no MALLOC record yet. The result of assign is the sequence
    // number to give it, or 0 to leave the block. The block gets that number unless it was freed meanwhile. If it got
    // the number, written(block) is called.
    template <typename Assign, typename Written>
    void claim_unrecorded(Assign assign, Written written) noexcept {
        for (unsigned level = 0; level < kLevels; ++level) {
            const Level view = level_view(level);
            if (view.buckets == nullptr) {
                continue;
            }
            for (std::size_t bucket = 0; bucket < view.count; ++bucket) {
                for (unsigned slot = 0; slot < kSlots; ++slot) {
                    LiveBlock block{};
                    std::uint64_t stay = 0;
                    if (!read_unrecorded(view.buckets[bucket], slot, block, stay)) {
                        continue;
                    }
                    block.sequence = assign(block);
                    if (block.sequence != 0 && claim(view.buckets[bucket], slot, stay, block.sequence)) {
                        written(block);
                    }
                }
            }
        }
    }

    // Bytes in memory of all levels now, and if every level were full.
    std::size_t memory_bytes() const noexcept;
    static std::size_t memory_limit_bytes() noexcept;

    // Forgets all levels, as after fork, where their memory has been wiped (or inherited, on kernels
    // that cannot wipe).
    void reset() noexcept;

private:
    static constexpr unsigned kSlots = 8;

    // 8 keys, one cache line, then the values. key: 0 free, 1 being filled, else pool << 56 | address. The upper two
    // bits of a sequence say what it is:
    // - 0x: the number of a record;
    // - 10: a block without a record;
    // - 11: such a block that is gone.
    //
    // The other bits of the last two count the stays of blocks in this place. Two stays in a row never have the same
    // count. So a thread can read a block, and then exchange its sequence only if it is unchanged. Then it has changed
    // that very block's.
    struct alignas(64) Bucket {
        std::atomic<std::uint64_t> keys[kSlots];
        std::atomic<std::uint64_t> sizes_and_devices[kSlots];
        std::atomic<std::uint64_t> sequences[kSlots];
        std::atomic<std::uint64_t> texts[kSlots];  // attributes << 32 | labels
    };
    struct Level {
        Bucket* buckets;
        std::size_t count;
    };

    static constexpr std::uint64_t kFilling = 1;
    static constexpr unsigned kPoolShift = 56;
    static constexpr std::uint64_t kAddressMask = (1ULL << kPoolShift) - 1;

    static std::uint64_t key_of(format::Pool pool, std::uint64_t address) noexcept {
        return (static_cast<std::uint64_t>(pool) << kPoolShift) | address;
    }
    Level level_view(unsigned level) const noexcept {
        return Level{levels_[level].load(std::memory_order_acquire), kFirstLevelBuckets << level};
    }
    Bucket* level_for_insert(unsigned level) noexcept;
    static bool insert_into(Bucket& bucket, std::uint64_t key, const LiveBlock& block) noexcept;
    static LiveBlock block_in(const Bucket& bucket, unsigned slot, std::uint64_t key, std::uint64_t sequence) noexcept;
    static bool read_live(const Bucket& bucket, unsigned slot, LiveBlock& block) noexcept;
    // stay: what claim() must find unchanged to claim this block and no later one.
    static bool read_unrecorded(const Bucket& bucket, unsigned slot, LiveBlock& block, std::uint64_t& stay) noexcept;
    static void read_removed(Bucket& bucket, unsigned slot, LiveBlock& block) noexcept;
    static bool claim(Bucket& bucket, unsigned slot, std::uint64_t stay, std::uint64_t sequence) noexcept;
    bool locate(std::uint64_t key, Bucket*& bucket, unsigned& slot) const noexcept;

    std::atomic<Bucket*> levels_[kLevels];
};

}  // namespace msmemscope
