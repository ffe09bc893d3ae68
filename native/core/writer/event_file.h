// The events of one thread at a time: a tail of records as they are, mapped shared, and behind it blocks of packed
// ones.
//
// Events are stored into the tail, whose pages stay in the cache. When it is full it is packed into a block at the end
// of the file, and begins again. What a killed process leaves is whole at every moment: the header tells where in the
// file the tail will stand as a block, and until a committed block stands there, the tail counts.
//
// A file is written by one thread. The file is opened for a moment at a time, see log_file.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/packed_block.h"
#include "core/format/packing.h"
#include "core/format/process_header.h"
#include "core/writer/log_file.h"

namespace msmemscope {

inline constexpr std::size_t kFirstTailBytes = 16UL * 1024UL;
inline constexpr std::size_t kLargestTailBytes = format::kMostPackedRecords * sizeof(format::Record);

// What a thread packs with: too large for its stack.
struct Packing {
    format::PackingState state;
    unsigned char bytes[8192];
};

class EventFile {
public:
    // Where the next record goes, and where the tail ends. Null before the first advance().
    unsigned char* cursor;
    unsigned char* end;

    // Creates `directory`/events_<number>.segment with its header. Returns 0 or an errno.
    int create(const char* directory, std::uint32_t number) noexcept;

    // The tail is full, or there is none yet: packs it, and makes room for at least one record more. Returns 0 or an
    // errno; on failure the file stays as it was. What was added to it is the last_block() then.
    int advance(const char* directory, std::size_t largest_tail_bytes, Packing& packing) noexcept;

    // The process ends: notes in the header what the tail holds. The caller holds the lock of growth.
    void seal() noexcept;

    // What the tail will have after advance(); a block takes less, but for records that have nothing in common.
    std::uint64_t next_tail_bytes(std::size_t largest_tail_bytes) const noexcept;

    // bytes: 0 if there is no block yet.
    const Chunk& last_block() const noexcept { return block_; }
    std::uint64_t file_bytes() const noexcept { return file_bytes_; }  // on disk
    std::size_t mapped_bytes() const noexcept { return mapping_.bytes; }

private:
    int pack_tail(int fd, Packing& packing) noexcept;
    int enlarge_tail(int fd, std::size_t bytes) noexcept;
    format::SegmentHeader* header() const noexcept { return reinterpret_cast<format::SegmentHeader*>(mapping_.data); }
    unsigned char* tail() const noexcept { return mapping_.data + format::kSegmentDataOffset; }

    Mapping mapping_;  // of the header and the tail
    std::size_t tail_bytes_;
    std::uint64_t file_bytes_;
    std::uint64_t records_;  // in blocks
    std::uint64_t next_block_;
    Chunk block_;
};

}  // namespace msmemscope
