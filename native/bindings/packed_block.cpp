#include "packed_block.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "core/format/packed_block.h"
#include "core/format/packing.h"
#include "core/format/record_checksum.h"

namespace nb = nanobind;

namespace msmemscope {
namespace {

using format::PackedBlockHeader;
using format::Record;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
    return (bytes + format::kPackedBlockAlignment - 1) / format::kPackedBlockAlignment * format::kPackedBlockAlignment;
}

struct Unpacked {
    std::vector<Record> records;
    std::size_t consumed = 0;
    std::uint64_t records_before = 0;
    std::uint64_t damaged = 0;
    bool has_blocks = false;
};

template <typename Number>
void swap_bytes(Number& number) noexcept {
    if constexpr (sizeof(Number) == 8) {
        number = __builtin_bswap64(number);
    } else {
        number = __builtin_bswap32(number);
    }
}

PackedBlockHeader header_at(const unsigned char* place, bool is_swapped) noexcept {
    PackedBlockHeader header{};
    std::memcpy(&header, place, sizeof(header));
    if (is_swapped) {
        swap_bytes(header.commit);
        swap_bytes(header.record_count);
        swap_bytes(header.payload_bytes);
        swap_bytes(header.records_before);
        swap_bytes(header.first_sequence);
    }
    return header;
}

// Reads as many whole blocks as there are, and as fit.
Unpacked unpack(const unsigned char* content, std::size_t bytes, std::size_t most_records, bool is_swapped) {
    Unpacked result;
    const auto state = std::make_unique<format::PackingState>();
    while (result.consumed + sizeof(PackedBlockHeader) <= bytes) {
        const unsigned char* const place = content + result.consumed;
        const PackedBlockHeader header = header_at(place, is_swapped);
        if (header.commit != format::kPackedBlockCommit || header.record_count > format::kMostPackedRecords ||
            header.payload_bytes > format::kMostPackedRecords * format::kMostPackedBytes) {
            result.consumed += format::kPackedBlockAlignment;
            continue;
        }
        const std::size_t whole = sizeof(header) + header.payload_bytes;
        if (result.consumed + whole > bytes ||
            (!result.records.empty() && result.records.size() + header.record_count > most_records)) {
            break;
        }
        const std::size_t before = result.records.size();
        result.records.resize(before + header.record_count);
        const unsigned char* in = place + sizeof(header);
        const unsigned char* const end = place + whole;
        state->clear();
        format::RecordChecksum checksum;
        for (std::size_t index = before; index < result.records.size() && in != nullptr; ++index) {
            in = in == end ? nullptr : state->unpack(in, end, result.records[index]);
            checksum.add(result.records[index]);
        }
        const bool checks = header.checksum == 0 || is_swapped || header.checksum == checksum.value();
        if (in != end || !checks) {
            result.records.resize(before);
            result.damaged += header.record_count;
        } else if (!result.has_blocks) {
            result.has_blocks = true;
            result.records_before = header.records_before;
        }
        result.consumed += aligned(whole);
    }
    return result;
}

nb::tuple unpack_blocks(const nb::bytes& content, std::size_t most_records, bool is_swapped) {
    Unpacked found;
    {
        const auto* const begin = reinterpret_cast<const unsigned char*>(content.c_str());
        const std::size_t bytes = content.size();
        const nb::gil_scoped_release released;
        found = unpack(begin, bytes, most_records, is_swapped);
    }
    return nb::make_tuple(
        nb::bytes(reinterpret_cast<const char*>(found.records.data()), found.records.size() * sizeof(Record)),
        found.consumed, found.has_blocks ? nb::cast(found.records_before) : nb::none(), found.damaged);
}

std::uint32_t checksum_of_records(const nb::bytes& records) {
    format::RecordChecksum checksum;
    Record record{};
    for (std::size_t place = 0; place + sizeof(record) <= records.size(); place += sizeof(record)) {
        std::memcpy(&record, records.c_str() + place, sizeof(record));
        checksum.add(record);
    }
    return checksum.value();
}

nb::bytes pack_block(const nb::bytes& records, std::uint64_t records_before) {
    const std::size_t count = records.size() / sizeof(Record);
    if (records.size() % sizeof(Record) != 0 || count == 0 || count > format::kMostPackedRecords) {
        throw nb::value_error("not 1 to 4096 records");
    }
    std::vector<unsigned char> block(sizeof(PackedBlockHeader) + count * format::kMostPackedBytes + 8);
    const auto state = std::make_unique<format::PackingState>();
    state->clear();
    unsigned char* out = block.data() + sizeof(PackedBlockHeader);
    Record record{};
    PackedBlockHeader header{format::kPackedBlockCommit, static_cast<std::uint32_t>(count), 0, 0, records_before, 0};
    format::RecordChecksum checksum;
    for (std::size_t index = 0; index < count; ++index) {
        std::memcpy(&record, records.c_str() + index * sizeof(Record), sizeof(record));
        if (index == 0) {
            header.first_sequence = record.sequence;
        }
        out = state->pack(record, out);
        checksum.add(record);
    }
    header.checksum = checksum.value();
    const auto whole = static_cast<std::size_t>(out - block.data());
    header.payload_bytes = static_cast<std::uint32_t>(whole - sizeof(header));
    std::memcpy(block.data(), &header, sizeof(header));
    block.resize(whole);
    block.resize(aligned(whole));
    return nb::bytes(reinterpret_cast<const char*>(block.data()), block.size());
}

}  // namespace

void define_packed_block(nb::module_& module) {
    module.def(
        "pack_block", &pack_block, nb::arg("records"), nb::arg("records_before"),
        "Packs up to 4,096 event records of this machine's byte order into a block of an events segment, padded to "
        "where the next one begins.");
    module.def("checksum_of_records", &checksum_of_records, nb::arg("records"),
               "Returns the checksum of event records of this machine's byte order, as a log has it; never 0.");
    module.def(
        "unpack_blocks", &unpack_blocks, nb::arg("content"), nb::arg("most_records"), nb::arg("is_swapped"),
        "Reads the blocks in a part of an events segment that begins where a block can: at least one of those that "
        "are whole, then as long as there are no more than so many records. is_swapped: it was written in the "
        "other byte order. Returns the records in this machine's byte order, how many bytes were read or are no "
        "block, how many records of the segment stand before the first block (None without blocks), and how many "
        "records are in blocks that cannot be read.");
}

}  // namespace msmemscope
