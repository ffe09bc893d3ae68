#include "core/writer/segment_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/format/process_header.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL and pages fault in one by one
#endif

namespace msmemscope {
namespace {

constexpr mode_t kFileMode = 0640;

// Callers hold the growth lock, so one buffer serves all; a thread's own stack may be too small for a path.
char path_buffer[4400];

const char* family_name(SegmentFamily family) noexcept {
    switch (family) {
        case SegmentFamily::kEvents:
            return "events";
        case SegmentFamily::kDefinitions:
            return "definitions";
        case SegmentFamily::kKept:
            return "kept";
    }
    return "unknown";
}

const char* segment_path(const char* directory, SegmentFamily family, std::uint32_t number) noexcept {
    std::snprintf(path_buffer, sizeof(path_buffer), "%s/%s_%u.segment", directory, family_name(family), number);
    return path_buffer;
}

class Descriptor {
public:
    Descriptor(const char* path, int flags) noexcept : fd_(open(path, flags | O_NOFOLLOW | O_CLOEXEC, kFileMode)) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const noexcept { return fd_; }
    bool valid() const noexcept { return fd_ >= 0; }
    void discard() noexcept {
        close(fd_);
        fd_ = -1;
    }

private:
    int fd_;
};

bool identify(int fd, FileIdentity& identity) noexcept {
    struct stat status{};
    if (fstat(fd, &status) != 0) {
        return false;
    }
    identity = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
    return true;
}

// The file of a chunk, opened again. Invalid, with an errno, if its name leads to another file now.
class ReopenedSegment : public Descriptor {
public:
    ReopenedSegment(const char* directory, const Chunk& chunk) noexcept
        : Descriptor(segment_path(directory, chunk.family, chunk.segment_number), O_RDWR | O_NONBLOCK) {
        FileIdentity found{};
        if (valid() &&
            (!identify(get(), found) || found.device != chunk.file.device || found.inode != chunk.file.inode)) {
            discard();
            errno = ESTALE;
        }
    }
};

std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

// Reserves the bytes on disk, so that a store into the mapping can never fail.
int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && offset + bytes > limit.rlim_cur) {
        return EFBIG;  // asking the kernel would raise SIGXFSZ, which ends the program
    }
    if (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) {
        return 0;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
        return errno;
    }
    static const char zeros[4096] = {};
    for (std::uint64_t written = 0; written < bytes;) {
        const std::size_t part = std::min<std::uint64_t>(sizeof(zeros), bytes - written);
        const ssize_t result = pwrite(fd, zeros, part, static_cast<off_t>(offset + written));
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result <= 0) {
            return result == 0 ? EIO : errno;
        }
        written += static_cast<std::uint64_t>(result);
    }
    return 0;
}

struct Mapping {
    void* start;
    std::size_t bytes;
    unsigned char* data;
};

// mmap wants page-aligned offsets and a page can be larger than the segment header.
int map_range(int fd, std::uint64_t offset, std::uint64_t bytes, Mapping& mapping) noexcept {
    const std::uint64_t lead = offset % page_bytes();
    mapping.bytes = static_cast<std::size_t>(bytes + lead);
    mapping.start =
        mmap(nullptr, mapping.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset - lead));
    if (mapping.start == MAP_FAILED) {
        return errno;
    }
    mapping.data = static_cast<unsigned char*>(mapping.start) + lead;
    return 0;
}

}  // namespace

int SegmentFile::create(const char* directory, SegmentFamily family, std::uint32_t number) noexcept {
    const Descriptor file(segment_path(directory, family, number), O_RDWR | O_CREAT | O_EXCL);
    FileIdentity identity{};
    if (!file.valid() || fchmod(file.get(), kFileMode) != 0 || !identify(file.get(), identity)) {
        return errno;
    }
    const int error = reserve(file.get(), 0, format::kSegmentDataOffset);
    if (error != 0) {
        return error;
    }
    format::SegmentHeader header{};
    header.magic = family == SegmentFamily::kDefinitions ? format::kDefinitionSegmentMagic : format::kEventSegmentMagic;
    header.byte_order_mark = format::kByteOrderMark;
    header.format_version = format::kFormatVersion;
    header.segment_number = number;
    const ssize_t written = pwrite(file.get(), &header, sizeof(header), 0);
    if (written != static_cast<ssize_t>(sizeof(header))) {
        return written < 0 ? errno : EIO;
    }
    cursor = nullptr;
    end = nullptr;
    mapping_ = nullptr;
    mapping_bytes_ = 0;
    file_bytes_ = format::kSegmentDataOffset;
    chunk_ = Chunk{family, number, 0, 0, identity};
    return 0;
}

int SegmentFile::advance(const char* directory, std::size_t minimum_bytes, std::size_t largest_chunk_bytes) noexcept {
    std::uint64_t bytes = chunk_.bytes == 0 ? kFirstChunkBytes : chunk_.bytes * 2;
    bytes = std::min<std::uint64_t>(bytes, largest_chunk_bytes);
    while (bytes < minimum_bytes) {
        bytes *= 2;
    }
    const ReopenedSegment file(directory, chunk_);
    if (!file.valid()) {
        return errno;
    }
    int error = reserve(file.get(), file_bytes_, bytes);
    if (error != 0) {
        return error;
    }
    Mapping mapping{};
    error = map_range(file.get(), file_bytes_, bytes, mapping);
    if (error != 0) {
        return error;
    }
    // One system call instead of a page fault every 64 records, and pages that are written once and left.
    // Failure only means slower.
    madvise(mapping.start, mapping.bytes, MADV_SEQUENTIAL);
    madvise(mapping.start, mapping.bytes, MADV_POPULATE_WRITE);
    unmap();
    mapping_ = mapping.start;
    mapping_bytes_ = mapping.bytes;
    cursor = mapping.data;
    end = mapping.data + bytes;
    chunk_.offset = file_bytes_;
    chunk_.bytes = bytes;
    file_bytes_ += bytes;
    return 0;
}

void SegmentFile::unmap() noexcept {
    if (mapping_ != nullptr) {
        munmap(mapping_, mapping_bytes_);
        mapping_ = nullptr;
        mapping_bytes_ = 0;
        cursor = nullptr;
        end = nullptr;
    }
}

MappedChunk::MappedChunk(const char* directory, const Chunk& chunk) noexcept
    : data_(nullptr), mapping_(nullptr), mapping_bytes_(0) {
    const ReopenedSegment file(directory, chunk);
    Mapping mapping{};
    if (file.valid() && map_range(file.get(), chunk.offset, chunk.bytes, mapping) == 0) {
        mapping_ = mapping.start;
        mapping_bytes_ = mapping.bytes;
        data_ = mapping.data;
    }
}

MappedChunk::~MappedChunk() {
    if (mapping_ != nullptr) {
        munmap(mapping_, mapping_bytes_);
    }
}

int punch_out(const char* directory, const Chunk& chunk) noexcept {
    const ReopenedSegment file(directory, chunk);
    if (!file.valid()) {
        return errno;
    }
    const int flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(file.get(), flags, static_cast<off_t>(chunk.offset), static_cast<off_t>(chunk.bytes)) == 0 ? 0
                                                                                                                : errno;
}

void* create_mapped_page(const char* directory, const char* name) noexcept {
    std::snprintf(path_buffer, sizeof(path_buffer), "%s/%s", directory, name);
    const Descriptor file(path_buffer, O_RDWR | O_CREAT | O_EXCL);
    if (!file.valid() || fchmod(file.get(), kFileMode) != 0) {
        return nullptr;
    }
    const int error = reserve(file.get(), 0, 4096);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    return page == MAP_FAILED ? nullptr : page;
}

int create_directory(const char* path, unsigned mode) noexcept {
    if (mkdir(path, mode) != 0) {
        return errno;
    }
    // Under an umask it may be closed to ourselves, and its name may lead to another one by now.
    const int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    char itself[32];
    std::snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
    const int error = chmod(itself, mode) == 0 ? 0 : errno;
    close(fd);
    return error;
}

}  // namespace msmemscope
