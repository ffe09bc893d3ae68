// One append-only segment of the event log: a file that grows by chunks. Only its current chunk is mapped. All calls
// except reading cursor() need the growth lock of the recorder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/writer/log_file.h"

namespace msmemscope {

inline constexpr std::size_t kFirstChunkBytes = 16UL * 1024UL;
inline constexpr std::size_t kLargestChunkBytes = 256UL * 1024UL;

class SegmentFile {
public:
    // Where the next entry goes, and where the mapped chunk ends. Null before the first advance().
    unsigned char* cursor;
    unsigned char* end;

    // Creates `directory`/<family>_<number>.segment with its header. Returns 0 or an errno.
    int create(const char* directory, SegmentFamily family, std::uint32_t number) noexcept;

    // Leaves the current chunk and maps a new one of at least minimum_bytes at the end of the file.
    // Returns 0 or an errno; on failure the segment stays as it was.
    int advance(const char* directory, std::size_t minimum_bytes, std::size_t largest_chunk_bytes) noexcept;

    // Unmaps the current chunk (the file stays).
    void unmap() noexcept;

    const Chunk& current_chunk() const noexcept { return chunk_; }
    bool has_chunk() const noexcept { return mapping_ != nullptr; }
    std::uint64_t file_bytes() const noexcept { return file_bytes_; }
    std::size_t mapped_bytes() const noexcept { return mapping_bytes_; }

private:
    void* mapping_;
    std::size_t mapping_bytes_;
    std::uint64_t file_bytes_;
    Chunk chunk_;
};

}  // namespace msmemscope
