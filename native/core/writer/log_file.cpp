#include "core/writer/log_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/format/process_header.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older kernels answer EINVAL and pages fault in one by one
#endif

namespace msmemscope {
namespace {

constexpr mode_t kFileMode = 0640;

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

std::uint64_t magic_of(SegmentFamily family) noexcept {
    switch (family) {
        case SegmentFamily::kEvents:
            return format::kPackedSegmentMagic;
        case SegmentFamily::kDefinitions:
            return format::kDefinitionSegmentMagic;
        case SegmentFamily::kKept:
            break;
    }
    return format::kEventSegmentMagic;
}

// A file of the log's directory. The kernel puts the two together: a thread's stack may be too small for a path.
int open_in(const char* directory, const char* name, int flags) noexcept {
    const Descriptor folder(open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC));
    return folder.valid() ? openat(folder.get(), name, flags | O_NOFOLLOW | O_CLOEXEC, kFileMode) : -1;
}

int open_segment(const char* directory, SegmentFamily family, std::uint32_t number, int flags) noexcept {
    char name[40];
    std::snprintf(name, sizeof(name), "%s_%u.segment", family_name(family), number);
    return open_in(directory, name, flags);
}

bool identify(int fd, FileIdentity& identity) noexcept {
    struct stat status{};
    if (fstat(fd, &status) != 0) {
        return false;
    }
    identity = {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
    return true;
}

std::uint64_t page_bytes() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

// A write beyond this limit raises SIGXFSZ.
bool is_beyond_limit(std::uint64_t end) noexcept {
    rlimit limit{};
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

}  // namespace

Descriptor::~Descriptor() { discard(); }

void Descriptor::discard() noexcept {
    if (fd_ >= 0) {
        close(fd_);
    }
    fd_ = -1;
}

int create_segment(const char* directory, SegmentFamily family, std::uint32_t number, FileIdentity& identity) noexcept {
    const Descriptor file(open_segment(directory, family, number, O_RDWR | O_CREAT | O_EXCL));
    if (!file.valid() || fchmod(file.get(), kFileMode) != 0 || !identify(file.get(), identity)) {
        return errno;
    }
    const int error = reserve(file.get(), 0, format::kSegmentDataOffset);
    if (error != 0) {
        return error;
    }
    format::SegmentHeader header{};
    header.magic = magic_of(family);
    header.byte_order_mark = format::kByteOrderMark;
    header.format_version = format::kFormatVersion;
    header.segment_number = number;
    if (family == SegmentFamily::kEvents) {
        header.tail_position = format::kPackedBlocksOffset;
    }
    return write_all(file.get(), &header, sizeof(header), 0);
}

ReopenedSegment::ReopenedSegment(const char* directory, const Chunk& chunk) noexcept
    : Descriptor(open_segment(directory, chunk.family, chunk.segment_number, O_RDWR | O_NONBLOCK)) {
    FileIdentity found{};
    if (valid() && (!identify(get(), found) || found.device != chunk.file.device || found.inode != chunk.file.inode)) {
        discard();
        errno = ESTALE;
    }
}

int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (is_beyond_limit(offset + bytes)) {
        return EFBIG;
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
        const int error = write_all(fd, zeros, part, offset + written);
        if (error != 0) {
            return error;
        }
        written += part;
    }
    return 0;
}

int write_all(int fd, const void* data, std::size_t bytes, std::uint64_t offset) noexcept {
    if (is_beyond_limit(offset + bytes)) {
        return EFBIG;
    }
    const auto* rest = static_cast<const unsigned char*>(data);
    while (bytes > 0) {
        const ssize_t written = pwrite(fd, rest, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written == 0 ? EIO : errno;
        }
        rest += written;
        offset += static_cast<std::uint64_t>(written);
        bytes -= static_cast<std::size_t>(written);
    }
    return 0;
}

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

void populate(const Mapping& mapping) noexcept { madvise(mapping.start, mapping.bytes, MADV_POPULATE_WRITE); }

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
    const Descriptor file(open_in(directory, name, O_RDWR | O_CREAT | O_EXCL));
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
