#include "core/writer/live_blocks.h"

#include <algorithm>
#include <initializer_list>

#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "core/writer/resident_pages.h"
#include "core/writer/wiped_memory.h"

namespace msmemscope {
namespace {

// Of Bucket::sequences, see there. Whoever removes a block without a record sets both bits, so that claim_unrecorded()
// loses the race.
constexpr std::uint64_t kUnrecorded = 1ULL << 63U;
constexpr std::uint64_t kTaken = 3ULL << 62U;
constexpr std::uint64_t kStayMask = ~kTaken;
constexpr unsigned kDeviceShift = 48;
constexpr std::uint64_t kSizeMask = (1ULL << kDeviceShift) - 1;

std::uint64_t pack(std::uint64_t size_bytes, format::Device device) noexcept {
    return (size_bytes & kSizeMask) | (static_cast<std::uint64_t>(static_cast<std::uint16_t>(device)) << kDeviceShift);
}

std::uint64_t pack_texts(const LiveBlock& block) noexcept {
    return (static_cast<std::uint64_t>(block.attributes) << 32U) | block.labels;
}

bool is_taken(std::uint64_t sequence) noexcept { return sequence >= kTaken; }

// The number of the record; 0 if there is none.
std::uint64_t recorded(std::uint64_t sequence) noexcept { return sequence < kUnrecorded ? sequence : 0; }

// The sequence of a block without a record, in a place whose sequence was `before`.
std::uint64_t next_stay(std::uint64_t before) noexcept { return kUnrecorded | ((before + 1) & kStayMask); }

struct BucketPair {
    std::size_t first;
    std::size_t second;
};

BucketPair buckets_of(std::uint64_t hash, std::size_t count) noexcept {
    return BucketPair{static_cast<std::size_t>(hash) & (count - 1),
                      static_cast<std::size_t>(hash >> 32U) & (count - 1)};
}

}  // namespace

LiveBlock LiveBlocks::block_in(const Bucket& bucket, unsigned slot, std::uint64_t key,
                               std::uint64_t sequence) noexcept {
    const std::uint64_t size_and_device = bucket.sizes_and_devices[slot].load(std::memory_order_relaxed);
    const std::uint64_t texts = bucket.texts[slot].load(std::memory_order_relaxed);
    LiveBlock block{};
    block.address = key & kAddressMask;
    block.pool = static_cast<format::Pool>(key >> kPoolShift);
    block.size_bytes = size_and_device & kSizeMask;
    block.device = static_cast<format::Device>(size_and_device >> kDeviceShift);
    block.sequence = recorded(sequence);
    block.attributes = static_cast<std::uint32_t>(texts >> 32U);
    block.labels = static_cast<std::uint32_t>(texts);
    return block;
}

bool LiveBlocks::insert_into(Bucket& bucket, std::uint64_t key, const LiveBlock& block) noexcept {
    for (unsigned slot = 0; slot < kSlots; ++slot) {
        std::uint64_t expected = 0;
        if (bucket.keys[slot].load(std::memory_order_relaxed) == 0 &&
            bucket.keys[slot].compare_exchange_strong(expected, kFilling, std::memory_order_acquire)) {
            bucket.sizes_and_devices[slot].store(pack(block.size_bytes, block.device), std::memory_order_relaxed);
            // Before the key: whoever reads this and then the key of a block reads that block.
            bucket.sequences[slot].store(block.sequence != 0
                                             ? block.sequence
                                             : next_stay(bucket.sequences[slot].load(std::memory_order_relaxed)),
                                         std::memory_order_release);
            bucket.texts[slot].store(pack_texts(block), std::memory_order_relaxed);
            bucket.keys[slot].store(key, std::memory_order_release);
            return true;
        }
    }
    return false;
}

LiveBlocks::Bucket* LiveBlocks::level_for_insert(unsigned level) noexcept {
    Bucket* buckets = levels_[level].load(std::memory_order_acquire);
    if (buckets != nullptr) {
        return buckets;
    }
    const KeepErrno keep_errno;
    const std::size_t bytes = (kFirstLevelBuckets << level) * sizeof(Bucket);
    auto* fresh = static_cast<Bucket*>(map_wiped_memory(bytes));
    if (fresh == nullptr) {
        return nullptr;
    }
    if (!levels_[level].compare_exchange_strong(buckets, fresh, std::memory_order_acq_rel)) {
        unmap_memory(fresh, bytes);
        return buckets;
    }
    return fresh;
}

bool LiveBlocks::insert(const LiveBlock& block) noexcept {
    const std::uint64_t key = key_of(block.pool, block.address);
    const std::uint64_t hash = hash_word(0, key);
    for (unsigned level = 0; level < kLevels; ++level) {
        Bucket* buckets = level_for_insert(level);
        if (buckets == nullptr) {
            return false;
        }
        const BucketPair pair = buckets_of(hash, kFirstLevelBuckets << level);
        if (insert_into(buckets[pair.first], key, block) || insert_into(buckets[pair.second], key, block)) {
            return true;
        }
    }
    return false;
}

bool LiveBlocks::locate(std::uint64_t key, Bucket*& bucket, unsigned& slot) const noexcept {
    const std::uint64_t hash = hash_word(0, key);
    for (unsigned level = 0; level < kLevels; ++level) {
        const Level view = level_view(level);
        if (view.buckets == nullptr) {
            return false;  // levels are created in order
        }
        const BucketPair pair = buckets_of(hash, view.count);
        for (const std::size_t index : {pair.first, pair.second}) {
            for (slot = 0; slot < kSlots; ++slot) {
                if (view.buckets[index].keys[slot].load(std::memory_order_acquire) == key) {
                    bucket = &view.buckets[index];
                    return true;
                }
            }
        }
    }
    return false;
}

void LiveBlocks::read_removed(Bucket& bucket, unsigned slot, LiveBlock& block) noexcept {
    std::uint64_t sequence = bucket.sequences[slot].load(std::memory_order_acquire);
    if (recorded(sequence) == 0) {
        // Only a block without a record can be claimed meanwhile.
        sequence = bucket.sequences[slot].exchange(sequence | kTaken, std::memory_order_acq_rel);
    }
    block = block_in(bucket, slot, bucket.keys[slot].load(std::memory_order_relaxed), sequence);
}

std::uint64_t LiveBlocks::latest_number_at(format::Pool pool, std::uint64_t address) const noexcept {
    const Level view = level_view(0);
    if (view.buckets == nullptr) {
        return 0;
    }
    if (levels_[1].load(std::memory_order_acquire) != nullptr) {
        return ~std::uint64_t{0};
    }
    const BucketPair pair = buckets_of(hash_word(0, key_of(pool, address)), view.count);
    std::uint64_t latest = 0;
    for (const std::size_t index : {pair.first, pair.second}) {
        for (const auto& number : view.buckets[index].sequences) {
            latest = std::max(latest, recorded(number.load(std::memory_order_relaxed)));
        }
    }
    return latest;
}

bool LiveBlocks::find(format::Pool pool, std::uint64_t address, LiveBlock& block) const noexcept {
    const std::uint64_t key = key_of(pool, address);
    Bucket* bucket = nullptr;
    unsigned slot = 0;
    if (!locate(key, bucket, slot)) {
        return false;
    }
    const std::uint64_t sequence = bucket->sequences[slot].load(std::memory_order_relaxed);
    block = block_in(*bucket, slot, key, sequence);
    return !is_taken(sequence);
}

bool LiveBlocks::find_around(std::uint64_t address, LiveBlock& block) const noexcept {
    bool found = false;
    for_each([&](const LiveBlock& candidate) noexcept {
        // Blocks of a pool lie in blocks of the driver: the smallest one is meant.
        if (candidate.address <= address && address - candidate.address < candidate.size_bytes &&
            (!found || candidate.size_bytes < block.size_bytes)) {
            block = candidate;
            found = true;
        }
    });
    return found;
}

void LiveBlocks::set_labels(const LiveBlock& block, std::uint32_t labels) noexcept {
    Bucket* bucket = nullptr;
    unsigned slot = 0;
    if (locate(key_of(block.pool, block.address), bucket, slot)) {
        LiveBlock changed = block;
        changed.labels = labels;
        bucket->texts[slot].store(pack_texts(changed), std::memory_order_relaxed);
    }
}

std::uint64_t LiveBlocks::live_bytes(format::Pool pool, format::Device device) const noexcept {
    std::uint64_t bytes = 0;
    for_each([&](const LiveBlock& block) noexcept {
        bytes += block.pool == pool && block.device == device ? block.size_bytes : 0;
    });
    return bytes;
}

bool LiveBlocks::read_live(const Bucket& bucket, unsigned slot, LiveBlock& block) noexcept {
    const std::uint64_t key = bucket.keys[slot].load(std::memory_order_acquire);
    const std::uint64_t sequence = bucket.sequences[slot].load(std::memory_order_acquire);
    if (key <= kFilling || is_taken(sequence)) {
        return false;
    }
    block = block_in(bucket, slot, key, sequence);
    return true;
}

bool LiveBlocks::read_unrecorded(const Bucket& bucket, unsigned slot, LiveBlock& block, std::uint64_t& stay) noexcept {
    stay = bucket.sequences[slot].load(std::memory_order_acquire);
    if (is_taken(stay) || stay < kUnrecorded) {
        return false;
    }
    const std::uint64_t key = bucket.keys[slot].load(std::memory_order_acquire);
    block = block_in(bucket, slot, key, stay);
    return key > kFilling;
}

bool LiveBlocks::claim(Bucket& bucket, unsigned slot, std::uint64_t stay, std::uint64_t sequence) noexcept {
    return bucket.sequences[slot].compare_exchange_strong(stay, sequence, std::memory_order_acq_rel);
}

void LiveBlocks::forget_sequences() noexcept {
    for (unsigned level = 0; level < kLevels; ++level) {
        const Level view = level_view(level);
        for (std::size_t bucket = 0; view.buckets != nullptr && bucket < view.count; ++bucket) {
            for (unsigned slot = 0; slot < kSlots; ++slot) {
                const std::uint64_t key = view.buckets[bucket].keys[slot].load(std::memory_order_acquire);
                std::uint64_t sequence = view.buckets[bucket].sequences[slot].load(std::memory_order_acquire);
                if (key > kFilling && recorded(sequence) != 0) {
                    view.buckets[bucket].sequences[slot].compare_exchange_strong(sequence, next_stay(sequence),
                                                                                 std::memory_order_acq_rel);
                }
            }
        }
    }
}

bool LiveBlocks::claim_one(LiveBlock& block, std::uint64_t sequence) noexcept {
    Bucket* bucket = nullptr;
    unsigned slot = 0;
    const std::uint64_t key = key_of(block.pool, block.address);
    std::uint64_t stay = 0;
    if (!locate(key, bucket, slot) || !read_unrecorded(*bucket, slot, block, stay) ||
        key_of(block.pool, block.address) != key) {
        return false;
    }
    block.sequence = sequence;
    return claim(*bucket, slot, stay, sequence);
}

std::size_t LiveBlocks::memory_bytes() const noexcept {
    std::size_t bytes = 0;
    for (unsigned level = 0; level < kLevels; ++level) {
        const Level view = level_view(level);
        if (view.buckets != nullptr) {
            bytes +=
                resident_bytes(reinterpret_cast<std::uint64_t>(view.buckets), view.count * sizeof(Bucket), kAllPieces);
        }
    }
    return bytes;
}

std::size_t LiveBlocks::memory_limit_bytes() noexcept {
    return ((kFirstLevelBuckets << kLevels) - kFirstLevelBuckets) * sizeof(Bucket);
}

void LiveBlocks::reset() noexcept {
    for (auto& level : levels_) {
        level.store(nullptr, std::memory_order_relaxed);
    }
}

}  // namespace msmemscope
