// How event records are packed, one record after the other. Each field becomes its difference from the expected value,
// in as many bytes as the difference needs. FORMAT.md describes the bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/format/record.h"

namespace msmemscope::format {

// Of one record: its kind, the lengths of its fields, and all fields at their longest.
inline constexpr std::size_t kMostPackedBytes = 1 + 4 + 6 * 8 + 4 * 5;

// The state that writer and reader keep about earlier records: 29 KiB. It is all zeros at the beginning of a block.
class PackingState {
public:
    void clear() noexcept;

    // Writes one record; returns the end of its bytes. Up to eight bytes more are overwritten: kMostPackedBytes + 8
    // must be there.
    unsigned char* pack(const Record& record, unsigned char* out) noexcept;

    // Reads one record from [in, end); returns the end of its bytes, null if it does not end there.
    const unsigned char* unpack(const unsigned char* in, const unsigned char* end, Record& record) noexcept;

private:
    struct Fields {
        std::uint64_t address;
        std::uint64_t size;
        std::uint64_t place;  // thread, device, pool and flags
        std::uint64_t name_id;
        std::uint64_t attribute_id;
        std::uint64_t python_stack_id;
        std::uint64_t native_stack_id;
        std::uint64_t extra;
    };
    struct Memory {
        std::uint64_t sequence;
        std::uint64_t address;
        std::uint64_t size;
    };
    static constexpr std::size_t kKinds = 64;
    static constexpr std::size_t kMemories = 1024;

    const Memory* memory_of(EventKind kind, std::uint64_t extra) const noexcept;
    void remember(EventKind kind, std::uint64_t sequence, const Fields& fields) noexcept;
    std::uint64_t expected_extra(EventKind kind, std::uint64_t sequence, std::uint64_t timestamp_ns) const noexcept;

    std::uint64_t sequence_;
    std::uint64_t timestamp_ns_;
    Fields fields_[kKinds];       // of the last record of each kind
    Memory memories_[kMemories];  // by the sequence of their MALLOC
};

}  // namespace msmemscope::format
