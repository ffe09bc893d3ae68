// The files of the event log, opened for a moment at a time.
//
// No file descriptor is held between calls. Programs close descriptors they do not know and reuse the numbers. Growing
// a file through such a number would destroy somebody's data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msmemscope {

enum class SegmentFamily : std::uint8_t { kEvents, kDefinitions, kKept };

// Which file a name led to when it was created. If others can write to the folder, the name may lead to another file
// later. It may become a link to a file of the user, which must not be written.
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

class Descriptor {
public:
    explicit Descriptor(int fd) noexcept : fd_(fd) {}
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const noexcept { return fd_; }
    bool valid() const noexcept { return fd_ >= 0; }

protected:
    void discard() noexcept;

private:
    int fd_;
};

// Creates `directory`/<family>_<number>.segment with its header. Returns 0 or an errno.
int create_segment(const char* directory, SegmentFamily family, std::uint32_t number, FileIdentity& identity) noexcept;

// The file of a chunk, opened again. Invalid, with an errno, if its name leads to another file now.
class ReopenedSegment : public Descriptor {
public:
    ReopenedSegment(const char* directory, const Chunk& chunk) noexcept;
};

// Reserves bytes on disk, so that a store into a mapping of them can never fail. Returns 0 or an errno.
int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept;

// Returns 0 or an errno; never raises SIGXFSZ, which would end the program.
int write_all(int fd, const void* data, std::size_t bytes, std::uint64_t offset) noexcept;

// Bytes of a file, mapped shared for reading and changing.
struct Mapping {
    void* start;
    std::size_t bytes;
    unsigned char* data;
};
// Returns 0 or an errno.
int map_range(int fd, std::uint64_t offset, std::uint64_t bytes, Mapping& mapping) noexcept;
// Makes all its pages at once, instead of by a fault each. Failure only means slower.
void populate(const Mapping& mapping) noexcept;

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
