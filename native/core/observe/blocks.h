// The functions that sources call when memory is allocated and freed. They follow blocks from here on, and record them
// with their call stacks.
#pragma once

#include "core/writer/recorder.h"

namespace msmemscope {

// Who follows blocks besides the recorder: memory that is being read must stay until that is done. Called inside a
// RecordingScope.
struct BlockListener {
    void (*block_begins)(const LiveBlock& block) noexcept;
    void (*block_ends)(const LiveBlock& block) noexcept;
};

namespace recorder {

#pragma GCC visibility push(default)

// The only one; null: nobody.
void set_block_listener(const BlockListener* listener) noexcept;

// Writes a rare event whose stacks are wanted whatever the settings say. Returns its sequence number, 0 if it was
// dropped (and counted).
std::uint64_t append_with_stacks(const RecordingScope& scope, Event event, const CallSite& site) noexcept;

// A block was allocated: follows it, and records it if collecting. Call it after the real allocation, outside of any
// scope. site: the call site of the allocation function. Native stacks begin there. attributes: facts of the allocator
// about the block, as Record::attribute_id has them, but by the number of a text.
void observe_allocation(format::Pool pool, format::Device device, std::uint64_t address, std::uint64_t size_bytes,
                        const CallSite& site, std::uint32_t attributes = 0) noexcept;

// A block that is older than our hooks, while nothing is collected: follows it, unless it is followed already. What
// refers to it must keep it alive meanwhile.
bool follow_older_block(format::Pool pool, format::Device device, std::uint64_t address,
                        std::uint64_t size_bytes) noexcept;

// A block is about to be freed: to be called before the real free, because another thread may be given
// the address right after it. Addresses that are no live block of the pool are passed over.
void observe_free(format::Pool pool, std::uint64_t address, const CallSite& site) noexcept;
// The same for a block whose end was not reported, found out when its address was given again.
void observe_missed_free(format::Pool pool, std::uint64_t address) noexcept;

// A block that the allocator is taking back. Sources use this where a free can fail. They also use it where a record of
// figures must stand before the FREE, and the figures are known only after the free.
struct EndingBlock {
    LiveBlock block;
    Event event{format::EventKind::kFree};
    // The sequence number of the record before the FREE. The source may write that record or leave it out. 0 if neither
    // record is wanted.
    std::uint64_t number = 0;
};

// To be called before the real free, as observe_free. False for addresses that are no live block of the pool.
bool begin_free(format::Pool pool, std::uint64_t address, const CallSite& site, EndingBlock& ending) noexcept;
// The block is gone.
void finish_free(const EndingBlock& ending) noexcept;
// The block was not taken back, and lives on.
void undo_free(const EndingBlock& ending) noexcept;

// Gives labels (the number of a text) to the live block that contains this address, whatever its pool; false if none is
// known. Costs little if these labels were the last that the block was given.
bool label_block(std::uint64_t address, std::uint32_t labels) noexcept;

// Records which part of the program refers to the live block that contains this address. False if no such block has a
// record.
bool note_holder(std::uint64_t address, const char* chain, std::size_t bytes, std::uint64_t viewed_bytes) noexcept;

// Records the bytes that were asked for of a live block. The block's own size is what its allocator made of them.
void note_requested(format::Pool pool, std::uint64_t address, std::uint64_t bytes) noexcept;

// note_mapped: physical memory of the driver was mapped at an address. Its handle stands for it. note_unmapped: the
// mapping at an address is gone. Call both after the real call. They are recorded where allocations are.
void note_mapped(std::uint64_t handle, std::uint64_t address, std::uint64_t bytes) noexcept;
void note_unmapped(std::uint64_t address) noexcept;

#pragma GCC visibility pop

}  // namespace recorder
}  // namespace msmemscope
