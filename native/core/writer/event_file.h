// The events of one thread at a time. The file is a tail of records as they are, mapped shared, and behind it blocks of
// packed ones.
//
// Events are stored into the tail, whose pages stay in the cache. A full tail is packed into a block at the end of the
// file, and begins again. If the process is killed, its file is whole at every moment. The header tells where in the
// file the tail will stand as a block. Until a committed block stands there, the tail counts.
//
// One thread writes a file. The file is opened for a moment at a time, see log_file.h.
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

// The working memory of a thread that packs. It is too large for the thread's stack.
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

    // Call this if the tail is full, or there is none yet. It packs the tail, and makes room for at least one record
    // more. Returns 0 or an errno. On failure the file stays as it was. On success last_block() is the block that was
    // added.
    int advance(const char* directory, std::size_t largest_tail_bytes, Packing& packing) noexcept;

    // The process ends: notes in the header what the tail holds. The caller holds the lock of growth.
    void seal() noexcept;

    // The bytes of the tail after advance(). A block takes less, unless its records have nothing in common.
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
