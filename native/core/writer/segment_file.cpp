#include "core/writer/segment_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "core/format/process_header.h"

namespace msmemscope {

int SegmentFile::create(const char* directory, SegmentFamily family, std::uint32_t number) noexcept {
    FileIdentity identity{};
    const int error = create_segment(directory, family, number, identity);
    if (error != 0) {
        return error;
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
    populate(mapping);
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

}  // namespace msmemscope
