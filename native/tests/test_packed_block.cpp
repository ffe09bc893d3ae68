// Packed records are the same when they are unpacked, whatever the records are. Unpacking a damaged block ends within
// its bytes.
#include <cstring>
#include <random>
#include <vector>

#include "core/format/packed_block.h"
#include "core/format/packing.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

constexpr std::size_t kRecords = format::kMostPackedRecords;

struct Block {
    std::vector<unsigned char> bytes;
    std::size_t used = 0;
};

Block packed(const std::vector<format::Record>& records) {
    static format::PackingState state;
    state.clear();
    Block block{std::vector<unsigned char>(records.size() * format::kMostPackedBytes + 8)};
    unsigned char* out = block.bytes.data();
    for (const format::Record& record : records) {
        unsigned char* const end = state.pack(record, out);
        CHECK(end <= out + format::kMostPackedBytes);
        out = end;
    }
    block.used = static_cast<std::size_t>(out - block.bytes.data());
    return block;
}

// How many records could be read of so many bytes, copied to where the sanitizer sees a step too far.
std::vector<format::Record> unpacked(const Block& block, std::size_t bytes, std::size_t count) {
    static format::PackingState state;
    state.clear();
    const std::vector<unsigned char> copy(block.bytes.begin(),
                                          block.bytes.begin() + static_cast<std::ptrdiff_t>(bytes));
    std::vector<format::Record> records;
    const unsigned char* in = copy.data();
    const unsigned char* const end = in + copy.size();
    while (records.size() < count && in != end) {
        format::Record record{};
        in = state.unpack(in, end, record);
        if (in == nullptr) {
            return records;
        }
        records.push_back(record);
    }
    return records;
}

void check_equal(const std::vector<format::Record>& one, const std::vector<format::Record>& other) {
    CHECK_EQUAL(one.size(), other.size());
    CHECK_EQUAL(std::memcmp(one.data(), other.data(), one.size() * sizeof(format::Record)), 0);
}

std::vector<format::Record> random_records(std::mt19937_64& random, bool is_wild) {
    std::vector<format::Record> records(random() % kRecords + 1);
    std::uint64_t sequence = random() % 1000;
    for (format::Record& record : records) {
        if (is_wild) {
            std::uint64_t words[8];
            for (std::uint64_t& word : words) {
                word = random() >> random() % 64U;
            }
            std::memcpy(static_cast<void*>(&record), words, sizeof(record));
            continue;
        }
        sequence += 1 + random() % 3;
        record.sequence = sequence;
        record.timestamp_ns = 1700000000000000000U + sequence * 700 - random() % 2000;
        record.kind = random() % 2 == 0 ? format::EventKind::kMalloc : format::EventKind::kFree;
        record.address = 0x7f0000000000U + random() % 50 * 64;
        record.size = static_cast<std::int64_t>(random() % 4 * 4096);
        record.extra = record.kind == format::EventKind::kFree ? sequence - random() % 1500 : 0;
        record.thread_and_device = 0xFE000011U;
    }
    return records;
}

void what_is_packed_is_the_same_again() {
    std::mt19937_64 random(7);
    for (int turn = 0; turn < 60; ++turn) {
        const auto records = random_records(random, turn % 2 == 0);
        const Block block = packed(records);
        check_equal(unpacked(block, block.used, records.size()), records);
    }
}

void usual_events_take_few_bytes() {
    std::vector<format::Record> records(kRecords);
    for (std::size_t index = 0; index < records.size(); ++index) {
        format::Record& record = records[index];
        const bool is_free = index % 2 == 1;
        record.sequence = 100 + index;
        record.timestamp_ns = 1700000000000000000U + index * 700;
        record.address = 0x7f0000000000U;
        record.size = 4096;
        record.kind = is_free ? format::EventKind::kFree : format::EventKind::kMalloc;
        record.extra = is_free ? record.sequence - 1 : 0;
    }
    CHECK(packed(records).used <= records.size() * 9);
}

void what_is_cut_or_changed_ends_in_its_bytes() {
    std::mt19937_64 random(8);
    for (int turn = 0; turn < 60; ++turn) {
        const auto records = random_records(random, turn % 2 == 0);
        Block block = packed(records);
        CHECK(unpacked(block, random() % block.used, records.size()).size() < records.size());
        for (int change = 0; change < 4; ++change) {
            block.bytes[random() % block.used] = static_cast<unsigned char>(random());
        }
        CHECK(unpacked(block, block.used, records.size()).size() <= records.size());
    }
}

}  // namespace

int main() {
    what_is_packed_is_the_same_again();
    usual_events_take_few_bytes();
    what_is_cut_or_changed_ends_in_its_bytes();
    return 0;
}
