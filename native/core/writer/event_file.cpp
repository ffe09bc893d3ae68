#include "core/writer/event_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/format/record_checksum.h"

namespace msmemscope {
namespace {

constexpr std::uint64_t aligned(std::uint64_t bytes) noexcept {
    return (bytes + format::kPackedBlockAlignment - 1) / format::kPackedBlockAlignment * format::kPackedBlockAlignment;
}

}  // namespace

int EventFile::create(const char* directory, std::uint32_t number) noexcept {
    FileIdentity identity{};
    const int error = create_segment(directory, SegmentFamily::kEvents, number, identity);
    if (error != 0) {
        return error;
    }
    cursor = nullptr;
    end = nullptr;
    mapping_ = Mapping{};
    tail_bytes_ = 0;
    file_bytes_ = format::kSegmentDataOffset;
    records_ = 0;
    next_block_ = format::kPackedBlocksOffset;
    block_ = Chunk{SegmentFamily::kEvents, number, 0, 0, identity};
    return 0;
}

std::uint64_t EventFile::next_tail_bytes(std::size_t largest_tail_bytes) const noexcept {
    const std::size_t wanted = tail_bytes_ != 0 ? 2 * tail_bytes_ : kFirstTailBytes;
    return std::max(std::min(wanted, largest_tail_bytes), tail_bytes_);
}

int EventFile::advance(const char* directory, std::size_t largest_tail_bytes, Packing& packing) noexcept {
    const ReopenedSegment file(directory, block_);
    if (!file.valid()) {
        return errno;
    }
    const bool has_tail = mapping_.data != nullptr;
    if (has_tail) {
        const int error = pack_tail(file.get(), packing);
        if (error != 0) {
            return error;
        }
    }
    const std::uint64_t bytes = next_tail_bytes(largest_tail_bytes);
    const int error = bytes > tail_bytes_ ? enlarge_tail(file.get(), bytes) : 0;
    if (error != 0 && !has_tail) {
        return error;  // where there is a tail, it is just not larger
    }
    cursor = tail();
    end = cursor + tail_bytes_;
    return 0;
}

int EventFile::pack_tail(int fd, Packing& packing) noexcept {
    const auto* const records = reinterpret_cast<const format::Record*>(tail());
    const std::size_t count = tail_bytes_ / sizeof(format::Record);
    std::uint64_t place = next_block_ + sizeof(format::PackedBlockHeader);
    unsigned char* out = packing.bytes;
    packing.state.clear();
    format::RecordChecksum checksum;
    for (std::size_t index = 0; index < count; ++index) {
        out = packing.state.pack(records[index], out);
        checksum.add(records[index]);
        const auto used = static_cast<std::size_t>(out - packing.bytes);
        if (used + format::kMostPackedBytes + 8 > sizeof(packing.bytes) || index + 1 == count) {
            const int error = write_all(fd, packing.bytes, used, place);
            if (error != 0) {
                return error;
            }
            place += used;
            out = packing.bytes;
        }
    }
    format::PackedBlockHeader block{};
    block.record_count = static_cast<std::uint32_t>(count);
    block.payload_bytes = static_cast<std::uint32_t>(place - next_block_ - sizeof(block));
    block.checksum = checksum.value();
    block.records_before = records_;
    block.first_sequence = records[0].sequence;
    int error = write_all(fd, &block, sizeof(block), next_block_);
    if (error == 0) {
        block.commit = format::kPackedBlockCommit;
        error = write_all(fd, &block.commit, sizeof(block.commit), next_block_);
    }
    if (error != 0) {
        return error;
    }
    block_.offset = next_block_;
    block_.bytes = aligned(place - next_block_);
    file_bytes_ += block_.bytes;
    records_ += count;
    next_block_ += block_.bytes;
    // In this order: whoever reads the tail in between finds the block where the header says that the tail will stand.
    std::memset(tail(), 0, tail_bytes_);
    __atomic_store_n(&header()->tail_position, next_block_, __ATOMIC_RELEASE);
    return 0;
}

void EventFile::seal() noexcept {
    if (mapping_.data == nullptr) {
        return;
    }
    const auto* const records = reinterpret_cast<const format::Record*>(tail());
    format::RecordChecksum checksum;
    std::uint64_t count = 0;
    while ((count + 1) * sizeof(format::Record) <= tail_bytes_ &&
           __atomic_load_n(&records[count].sequence, __ATOMIC_ACQUIRE) != 0) {
        checksum.add(records[count]);
        ++count;
    }
    header()->sealed_records = count;
    header()->sealed_position = header()->tail_position;
    header()->sealed_checksum = checksum.value();
}

int EventFile::enlarge_tail(int fd, std::size_t bytes) noexcept {
    int error = reserve(fd, format::kSegmentDataOffset, bytes);
    if (error != 0) {
        return error;
    }
    Mapping larger{};
    error = map_range(fd, 0, format::kSegmentDataOffset + bytes, larger);
    if (error != 0) {
        return error;
    }
    populate(larger);
    if (mapping_.data != nullptr) {
        munmap(mapping_.start, mapping_.bytes);
    }
    mapping_ = larger;
    file_bytes_ += bytes - tail_bytes_;
    tail_bytes_ = bytes;
    header()->tail_bytes = bytes;
    return 0;
}

}  // namespace msmemscope
