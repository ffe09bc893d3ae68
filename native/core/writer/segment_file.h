// One append-only segment of the event log: a file that grows by chunks and of
// which only the current chunk is mapped.
//
// No file descriptor is held between calls: programs close descriptors they do not
// know and reuse the numbers, and growing a file through such a number would destroy
// somebody's data. All calls except reading cursor() need the growth lock of the recorder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

inline constexpr std::size_t kFirstChunkBytes = 16UL * 1024UL;
inline constexpr std::size_t kLargestChunkBytes = 256UL * 1024UL;

enum class SegmentFamily : std::uint8_t { kEvents, kDefinitions, kKept };

// Which file a name led to when it was created. In a folder that others can write to, the name may lead to another one
// later: a link to a file of the user, which must not be written.
struct FileIdentity {
    std::uint64_t device;
    std::uint64_t inode;
};

// A stretch of a segment, by position in the file.
struct Chunk {
    SegmentFamily family;
    std::uint32_t segment_number;
    std::uint64_t offset;
    std::uint64_t bytes;
    FileIdentity file;
};

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

// A chunk of an existing segment mapped for reading and changing, for the flight recorder.
class MappedChunk {
public:
    MappedChunk(const char* directory, const Chunk& chunk) noexcept;
    ~MappedChunk();
    MappedChunk(const MappedChunk&) = delete;
    MappedChunk& operator=(const MappedChunk&) = delete;

    // Null if the chunk could not be mapped.
    unsigned char* data() const noexcept { return data_; }

private:
    unsigned char* data_;
    void* mapping_;
    std::size_t mapping_bytes_;
};

// Gives the chunk's disk space back; it then reads as zeros. Returns 0 or an errno.
int punch_out(const char* directory, const Chunk& chunk) noexcept;

// Creates a file of exactly one page, mapped shared. Null and errno on failure.
void* create_mapped_page(const char* directory, const char* name) noexcept;

// Creates a directory of the given mode whatever the umask is. Returns 0 or an errno (EEXIST included).
int create_directory(const char* path, unsigned mode) noexcept;

}  // namespace msmemscope
