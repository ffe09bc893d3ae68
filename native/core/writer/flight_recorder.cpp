// The flight recorder: under --max-size the oldest block is given back to the disk before more is taken. First, MALLOC
// records of blocks that are still alive are copied to a `kept` segment. Such a copy is withdrawn when the FREE record
// of its block goes.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/writer/process_state.h"
#include "core/writer/wiped_memory.h"

namespace msmemscope {
namespace {

using format::kMostPackedRecords;

bool prepare(FlightRecorderState& flight) noexcept {
    if (flight.blocks == nullptr) {
        flight.blocks = static_cast<Chunk*>(map_wiped_memory(FlightRecorderState::kCapacity * sizeof(Chunk)));
        flight.freed = static_cast<std::uint64_t*>(map_wiped_memory(kMostPackedRecords * sizeof(std::uint64_t)));
        flight.unpacking = static_cast<format::PackingState*>(map_wiped_memory(sizeof(format::PackingState)));
    }
    return flight.blocks != nullptr && flight.freed != nullptr && flight.unpacking != nullptr;
}

int keep(ProcessState& state, const format::Record& record) noexcept {
    FlightRecorderState& flight = state.flight;
    if (!flight.kept_created) {
        const int error = flight.kept.create(state.event_log_directory, SegmentFamily::kKept, flight.kept_number);
        if (error != 0) {
            return error;
        }
        flight.kept_created = true;
    }
    if (flight.kept.cursor == flight.kept.end) {
        const std::uint64_t before = flight.kept.file_bytes();
        const int error = flight.kept.advance(state.event_log_directory, sizeof(record), largest_chunk_bytes());
        if (error != 0) {
            return error;
        }
        state.log_bytes += flight.kept.file_bytes() - before;
    }
    auto* place = reinterpret_cast<format::Record*>(flight.kept.cursor);
    const std::uint64_t sequence = record.sequence;
    std::memcpy(reinterpret_cast<unsigned char*>(place) + sizeof(sequence),
                reinterpret_cast<const unsigned char*>(&record) + sizeof(sequence), sizeof(record) - sizeof(sequence));
    __atomic_store_n(&place->sequence, sequence, __ATOMIC_RELEASE);
    flight.kept.cursor += sizeof(record);
    return 0;
}

// Takes back the kept records whose sequence is in freed[0..count), sorted.
void withdraw(ProcessState& state, const std::uint64_t* freed, std::size_t count) noexcept {
    FlightRecorderState& flight = state.flight;
    if (!flight.kept_created || count == 0 || flight.kept.file_bytes() <= format::kSegmentDataOffset) {
        return;
    }
    const std::uint64_t bytes = flight.kept.file_bytes() - format::kSegmentDataOffset;
    Chunk everything = flight.kept.current_chunk();
    everything.offset = format::kSegmentDataOffset;
    everything.bytes = bytes;
    const MappedChunk kept(state.event_log_directory, everything);
    if (kept.data() == nullptr) {
        return;
    }
    auto* records = reinterpret_cast<format::Record*>(kept.data());
    for (std::uint64_t index = 0; index < bytes / sizeof(format::Record); ++index) {
        if (records[index].sequence != 0 && std::binary_search(freed, freed + count, records[index].sequence)) {
            __atomic_store_n(&records[index].sequence, 0, __ATOMIC_RELEASE);
        }
    }
}

// Decides about a record whose block goes: keeps it if its memory is alive, counts it otherwise. Returns 0 or an errno.
int let_go(ProcessState& state, const format::Record& record, std::size_t& freed_count,
           std::uint64_t& dropped) noexcept {
    LiveBlock block{};
    if (record.kind == format::EventKind::kMalloc && state.live_blocks.find(record.pool, record.address, block) &&
        block.sequence == record.sequence) {
        return keep(state, record);
    }
    if (record.kind == format::EventKind::kHostSample &&
        state.host_samples.find(format::Pool::kNone, record.address, block) && block.sequence == record.sequence) {
        return keep(state, record);
    }
    ++dropped;
    const bool is_end = record.kind == format::EventKind::kFree || record.kind == format::EventKind::kHostSampleFree;
    if (is_end && record.extra != 0) {
        state.flight.freed[freed_count++] = record.extra;
    }
    return 0;
}

int recycle_oldest(ProcessState& state) noexcept {
    FlightRecorderState& flight = state.flight;
    const Chunk chunk = flight.blocks[flight.first];
    std::size_t freed_count = 0;
    std::uint64_t dropped = 0;
    {
        errno = 0;
        const MappedChunk mapped(state.event_log_directory, chunk);
        if (mapped.data() == nullptr) {
            return errno != 0 ? errno : ENOENT;
        }
        format::PackedBlockHeader header{};
        std::memcpy(&header, mapped.data(), sizeof(header));
        const unsigned char* in = mapped.data() + sizeof(header);
        const unsigned char* const end =
            in + std::min<std::uint64_t>(header.payload_bytes, chunk.bytes - sizeof(header));
        const std::size_t count = std::min<std::size_t>(header.record_count, kMostPackedRecords);
        flight.unpacking->clear();
        format::Record record{};
        for (std::size_t index = 0; index < count; ++index) {
            in = flight.unpacking->unpack(in, end, record);
            if (in == nullptr) {
                break;  // somebody else wrote to the file
            }
            const int error = let_go(state, record, freed_count, dropped);
            if (error != 0) {
                return error;
            }
        }
    }
    // The order matters, because the process may be killed at any moment. First the records that go are counted. Then
    // copies are withdrawn whose FREE records go. Only then the records go.
    const std::uint64_t total = state.dropped.recycled.fetch_add(dropped, std::memory_order_relaxed) + dropped;
    state.header->dropped_recycled = total;
    std::sort(flight.freed, flight.freed + freed_count);
    withdraw(state, flight.freed, freed_count);
    const int error = punch_out(state.event_log_directory, chunk);
    if (error != 0) {
        return error;
    }
    flight.first = (flight.first + 1) % FlightRecorderState::kCapacity;
    --flight.count;
    state.log_bytes -= std::min(chunk.bytes, state.log_bytes);
    return 0;
}

}  // namespace

std::size_t largest_chunk_bytes() noexcept {
    const std::uint64_t cap = recorder::settings().maximum_size_bytes;
    if (cap == 0) {
        return kLargestChunkBytes;
    }
    // At least sixteen blocks under the cap, so that recycling one loses little.
    std::size_t bytes = kFirstChunkBytes;
    while (bytes * 2 <= kLargestChunkBytes && bytes * 32 <= cap) {
        bytes *= 2;
    }
    return bytes;
}

int make_room(ProcessState& state, std::uint64_t bytes) noexcept {
    const std::uint64_t cap = recorder::settings().maximum_size_bytes;
    if (cap == 0) {
        return 0;
    }
    bytes = std::max<std::uint64_t>(bytes, largest_chunk_bytes());
    while (state.log_bytes + bytes > cap && state.flight.count > 0) {
        const int error = recycle_oldest(state);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

void note_block(ProcessState& state, const Chunk& block) noexcept {
    if (recorder::settings().maximum_size_bytes == 0) {
        return;
    }
    FlightRecorderState& flight = state.flight;
    if (!prepare(flight) || flight.count == FlightRecorderState::kCapacity) {
        return;  // never recycled then: the log outgrows its cap rather than losing what it has
    }
    flight.blocks[(flight.first + flight.count) % FlightRecorderState::kCapacity] = block;
    ++flight.count;
}

}  // namespace msmemscope
