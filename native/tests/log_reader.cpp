#include "tests/log_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_set>

#include "core/format/packed_block.h"
#include "core/format/packing.h"
#include "tests/check.h"

namespace msmemscope::tests {
namespace {

std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void check_segment_header(const std::string& bytes, std::uint64_t magic) {
    CHECK(bytes.size() >= format::kSegmentDataOffset);
    format::SegmentHeader header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    CHECK(header.magic == magic);
    CHECK(header.byte_order_mark == format::kByteOrderMark);
    CHECK_EQUAL(header.format_version, format::kFormatVersion);
}

void add_committed(const std::string& bytes, std::size_t place, std::size_t end, std::vector<format::Record>& records) {
    for (; place + sizeof(format::Record) <= std::min(end, bytes.size()); place += sizeof(format::Record)) {
        format::Record record{};
        std::memcpy(&record, bytes.data() + place, sizeof(record));
        if (record.sequence != 0) {
            records.push_back(record);
        }
    }
}

void add_block(const std::string& bytes, std::size_t place, const format::PackedBlockHeader& block,
               std::vector<format::Record>& records) {
    static format::PackingState state;
    state.clear();
    const auto* in = reinterpret_cast<const unsigned char*>(bytes.data()) + place + sizeof(block);
    const unsigned char* const end = in + block.payload_bytes;
    for (std::uint32_t index = 0; index < block.record_count; ++index) {
        format::Record record{};
        in = state.unpack(in, end, record);
        CHECK(in != nullptr);
        records.push_back(record);
    }
    CHECK(in == end);
}

std::vector<format::Record> read_records(const std::string& bytes) {
    std::vector<format::Record> records;
    if (bytes.compare(0, 8, "MSEVENTS") == 0) {
        check_segment_header(bytes, format::kEventSegmentMagic);
        add_committed(bytes, format::kSegmentDataOffset, bytes.size(), records);
        return records;
    }
    check_segment_header(bytes, format::kPackedSegmentMagic);
    format::SegmentHeader header{};
    std::memcpy(&header, bytes.data(), sizeof(header));
    bool tail_counts = true;
    for (std::size_t place = format::kPackedBlocksOffset; place + sizeof(format::PackedBlockHeader) <= bytes.size();) {
        format::PackedBlockHeader block{};
        std::memcpy(&block, bytes.data() + place, sizeof(block));
        if (block.commit != format::kPackedBlockCommit) {
            place += format::kPackedBlockAlignment;
            continue;
        }
        tail_counts = tail_counts && place != header.tail_position;
        add_block(bytes, place, block, records);
        place += (sizeof(block) + block.payload_bytes + format::kPackedBlockAlignment - 1) /
                 format::kPackedBlockAlignment * format::kPackedBlockAlignment;
    }
    if (tail_counts) {
        add_committed(bytes, format::kSegmentDataOffset, format::kSegmentDataOffset + header.tail_bytes, records);
    }
    return records;
}

void read_definitions(const std::string& bytes, std::vector<Definition>& definitions) {
    check_segment_header(bytes, format::kDefinitionSegmentMagic);
    std::size_t place = format::kSegmentDataOffset;
    while (place + sizeof(format::DefinitionHeader) <= bytes.size()) {
        Definition definition{};
        std::memcpy(&definition.header, bytes.data() + place, sizeof(definition.header));
        if (definition.header.commit != format::kDefinitionCommit) {
            place += 8;
            continue;
        }
        place += sizeof(definition.header);
        definition.payload = bytes.substr(place, definition.header.payload_bytes);
        definitions.push_back(definition);
        place += (definition.header.payload_bytes + 7) / 8 * 8;
    }
}

std::filesystem::path capture_of(const std::filesystem::path& output, int process_id) {
    const std::string prefix = "msmemscope_" + std::to_string(process_id) + "_";
    for (const auto& entry : std::filesystem::directory_iterator(output)) {
        if (entry.path().filename().string().rfind(prefix, 0) == 0) {
            return entry.path() / "event_log";
        }
    }
    std::fprintf(stderr, "no capture of process %d\n", process_id);
    std::exit(1);
}

void check_sound(const Log& log) {
    std::unordered_set<std::uint64_t> sequences;
    std::unordered_set<std::uint64_t> blocks;
    for (const auto* records : {&log.records, &log.kept}) {
        for (const format::Record& record : *records) {
            CHECK(sequences.insert(record.sequence).second);
            if (record.kind == format::EventKind::kMalloc) {
                blocks.insert(record.sequence);
            }
        }
    }
    for (const format::Record& record : log.records) {
        // The flight recorder may have dropped the MALLOC of a block that is gone.
        if (record.kind == format::EventKind::kFree && log.header.dropped_recycled == 0) {
            CHECK(blocks.count(record.extra) == 1);
        }
    }
}

}  // namespace

std::vector<format::Record> Log::of(format::EventKind kind) const {
    std::vector<format::Record> found;
    std::copy_if(records.begin(), records.end(), std::back_inserter(found),
                 [kind](const format::Record& record) { return record.kind == kind; });
    return found;
}

bool Log::has_fact(const std::string& text) const {
    return std::any_of(definitions.begin(), definitions.end(), [&text](const Definition& definition) {
        return definition.header.kind == format::DefinitionKind::kFact && definition.payload == text;
    });
}

Log read_log(const std::filesystem::path& output, int process_id) {
    const std::filesystem::path folder = capture_of(output, process_id);
    Log log{};
    const std::string header = read_file(folder / "process.header");
    CHECK(header.size() >= sizeof(log.header));
    std::memcpy(&log.header, header.data(), sizeof(log.header));
    CHECK(log.header.magic == format::kProcessMagic);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name.rfind("events_", 0) == 0) {
            const std::vector<format::Record> records = read_records(read_file(entry.path()));
            CHECK(std::is_sorted(records.begin(), records.end(),
                                 [](const auto& a, const auto& b) { return a.sequence < b.sequence; }));
            log.records.insert(log.records.end(), records.begin(), records.end());
        } else if (name.rfind("kept_", 0) == 0) {
            log.kept = read_records(read_file(entry.path()));
        } else if (name.rfind("definitions_", 0) == 0) {
            read_definitions(read_file(entry.path()), log.definitions);
        }
    }
    std::sort(log.records.begin(), log.records.end(),
              [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
    log.kept.erase(std::remove_if(log.kept.begin(), log.kept.end(),
                                  [&log](const format::Record& kept) {
                                      return std::binary_search(
                                          log.records.begin(), log.records.end(), kept,
                                          [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
                                  }),
                   log.kept.end());
    check_sound(log);
    return log;
}

std::string attributes_of(const Log& log, std::uint32_t attribute_id) {
    const auto payload_of = [&log](format::DefinitionKind kind, std::uint64_t id) {
        for (const Definition& definition : log.definitions) {
            if (definition.header.kind == kind && definition.header.id == id) {
                return definition.payload;
            }
        }
        return std::string{"undefined"};
    };
    if (attribute_id == 0) {
        return "";
    }
    const std::string payload = payload_of(format::DefinitionKind::kAttributes, attribute_id);
    CHECK_EQUAL(payload.size() % sizeof(format::Attribute), 0U);
    std::string text;
    for (std::size_t begin = 0; begin < payload.size(); begin += sizeof(format::Attribute)) {
        format::Attribute pair{};
        std::memcpy(&pair, payload.data() + begin, sizeof(pair));
        text += (text.empty() ? "" : ",") + std::to_string(static_cast<unsigned>(pair.key)) + "=";
        text += pair.kind == format::ValueKind::kString ? payload_of(format::DefinitionKind::kString, pair.value)
                                                        : "#" + std::to_string(pair.value);
    }
    return text;
}

std::size_t count_captures(const std::filesystem::path& output) {
    const std::filesystem::directory_iterator entries(output);
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

std::uint64_t allocated_bytes(const std::filesystem::path& output, int process_id) {
    std::uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(capture_of(output, process_id))) {
        struct stat status{};
        CHECK(stat(entry.path().c_str(), &status) == 0);
        bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
}

}  // namespace msmemscope::tests
