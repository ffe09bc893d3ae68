#include "core/format/packing.h"

#include <cstring>

namespace msmemscope::format {
namespace {

// Lengths of fields in bytes, as three bits tell them.
constexpr unsigned kLengths[8] = {0, 1, 2, 3, 4, 5, 6, 8};

constexpr std::uint64_t folded(std::uint64_t difference) noexcept {
    return difference << 1U ^ (0 - (difference >> 63U));  // small whether it is above or below zero
}
constexpr std::uint64_t unfolded(std::uint64_t value) noexcept { return value >> 1U ^ (0 - (value & 1U)); }

inline void store_little(unsigned char* out, std::uint64_t value) noexcept {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    std::memcpy(out, &value, sizeof(value));
}

inline std::uint64_t load_little(const unsigned char* in) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, in, sizeof(value));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

struct Output {
    unsigned char* at;
    std::uint32_t lengths = 0;

    template <unsigned kField>
    __attribute__((always_inline)) void put(std::uint64_t value, std::uint64_t expected) noexcept {
        if (value == expected) {
            return;
        }
        const std::uint64_t rest = folded(value - expected);
        const unsigned bytes = (71U - static_cast<unsigned>(__builtin_clzll(rest))) / 8U;
        const unsigned code = bytes < 7 ? bytes : 7;
        store_little(at, rest);
        at += bytes < 7 ? bytes : 8;
        lengths |= code << 3U * kField;
    }
};

struct Input {
    const unsigned char* at;
    std::uint32_t lengths;

    // At least eight bytes are readable.
    template <unsigned kField>
    __attribute__((always_inline)) std::uint64_t get(std::uint64_t expected) noexcept {
        const unsigned bytes = kLengths[lengths >> 3U * kField & 7U];
        if (bytes == 0) {
            return expected;
        }
        const std::uint64_t mask = bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8U * bytes) - 1;
        const std::uint64_t value = load_little(at) & mask;
        at += bytes;
        return expected + unfolded(value);
    }
};

constexpr bool concerns_a_block(EventKind kind) noexcept {
    switch (kind) {
        case EventKind::kFree:
        case EventKind::kAccessRead:
        case EventKind::kAccessWrite:
        case EventKind::kAccessUnknown:
        case EventKind::kFreeCompleted:
        case EventKind::kOwner:
        case EventKind::kWatch:
        case EventKind::kWatchStart:
        case EventKind::kWatchStop:
        case EventKind::kHolder:
        case EventKind::kHostSampleFree:
            return true;
        default:
            return false;
    }
}

constexpr std::uint64_t place_of(const Record& record) noexcept {
    return static_cast<std::uint64_t>(record.thread_and_device) << 24U |
           static_cast<std::uint64_t>(record.device_low) << 16U | static_cast<std::uint64_t>(record.pool) << 8U |
           record.flags;
}

}  // namespace

void PackingState::clear() noexcept { std::memset(static_cast<void*>(this), 0, sizeof(*this)); }

inline const PackingState::Memory* PackingState::memory_of(EventKind kind, std::uint64_t extra) const noexcept {
    if (!concerns_a_block(kind) || extra == 0) {
        return nullptr;
    }
    const Memory& memory = memories_[extra % kMemories];
    return memory.sequence == extra ? &memory : nullptr;
}

inline void PackingState::remember(EventKind kind, std::uint64_t sequence, const Fields& fields) noexcept {
    fields_[static_cast<std::size_t>(kind) % kKinds] = fields;
    const std::uint64_t block = kind == EventKind::kMalloc || kind == EventKind::kHostSample ? sequence
                                : concerns_a_block(kind)                                     ? fields.extra
                                                                                             : 0;
    if (block != 0) {
        memories_[block % kMemories] = {block, fields.address, fields.size};
    }
}

inline std::uint64_t PackingState::expected_extra(EventKind kind, std::uint64_t sequence,
                                                  std::uint64_t timestamp_ns) const noexcept {
    if (concerns_a_block(kind)) {
        return sequence;
    }
    return kind == EventKind::kFunctionCall ? timestamp_ns : fields_[static_cast<std::size_t>(kind) % kKinds].extra;
}

unsigned char* PackingState::pack(const Record& record, unsigned char* out) noexcept {
    const EventKind kind = record.kind;
    const Fields fields{record.address,         static_cast<std::uint64_t>(record.size),
                        place_of(record),       record.name_id,
                        record.attribute_id,    record.python_stack_id,
                        record.native_stack_id, record.extra};
    const Fields& before = fields_[static_cast<std::size_t>(kind) % kKinds];
    const Memory* const memory = memory_of(kind, record.extra);
    Output output{out + 5};
    output.put<0>(record.sequence, sequence_ + 1);
    output.put<1>(record.timestamp_ns, timestamp_ns_);
    output.put<2>(fields.extra, expected_extra(kind, record.sequence, record.timestamp_ns));
    output.put<3>(fields.address, memory != nullptr ? memory->address : before.address);
    output.put<4>(fields.size, memory != nullptr ? memory->size : before.size);
    output.put<5>(fields.place, before.place);
    output.put<6>(fields.name_id, before.name_id);
    output.put<7>(fields.attribute_id, before.attribute_id);
    output.put<8>(fields.python_stack_id, before.python_stack_id);
    output.put<9>(fields.native_stack_id, before.native_stack_id);
    out[0] = static_cast<unsigned char>(kind);
    for (unsigned byte = 0; byte < 4; ++byte) {
        out[1 + byte] = static_cast<unsigned char>(output.lengths >> 8U * byte);
    }
    sequence_ = record.sequence;
    timestamp_ns_ = record.timestamp_ns;
    remember(kind, record.sequence, fields);
    return output.at;
}

const unsigned char* PackingState::unpack(const unsigned char* in, const unsigned char* end, Record& record) noexcept {
    // Near the end of a block: eight bytes are read of each field.
    unsigned char last[kMostPackedBytes + 8] = {};
    const unsigned char* const begin = in;
    const auto left = static_cast<std::size_t>(end - in);
    if (left < sizeof(last)) {
        std::memcpy(last, in, left);
        in = last;
    }
    const auto kind = static_cast<EventKind>(in[0]);
    const Fields& before = fields_[static_cast<std::size_t>(kind) % kKinds];
    Input input{in + 5, static_cast<std::uint32_t>(in[1] | in[2] << 8U | in[3] << 16U) |
                            static_cast<std::uint32_t>(in[4]) << 24U};
    record.kind = kind;
    record.sequence = input.get<0>(sequence_ + 1);
    record.timestamp_ns = input.get<1>(timestamp_ns_);
    Fields fields{};
    fields.extra = input.get<2>(expected_extra(kind, record.sequence, record.timestamp_ns));
    const Memory* const memory = memory_of(kind, fields.extra);
    fields.address = input.get<3>(memory != nullptr ? memory->address : before.address);
    fields.size = input.get<4>(memory != nullptr ? memory->size : before.size);
    fields.place = input.get<5>(before.place);
    fields.name_id = input.get<6>(before.name_id);
    fields.attribute_id = input.get<7>(before.attribute_id);
    fields.python_stack_id = input.get<8>(before.python_stack_id);
    fields.native_stack_id = input.get<9>(before.native_stack_id);
    const auto bytes = static_cast<std::size_t>(input.at - in);
    if (bytes > left) {
        return nullptr;
    }
    record.address = fields.address;
    record.size = static_cast<std::int64_t>(fields.size);
    record.thread_and_device = static_cast<std::uint32_t>(fields.place >> 24U);
    record.device_low = static_cast<std::uint8_t>(fields.place >> 16U);
    record.pool = static_cast<Pool>(static_cast<std::uint8_t>(fields.place >> 8U));
    record.flags = static_cast<std::uint8_t>(fields.place);
    record.name_id = static_cast<std::uint32_t>(fields.name_id);
    record.attribute_id = static_cast<std::uint32_t>(fields.attribute_id);
    record.python_stack_id = static_cast<std::uint32_t>(fields.python_stack_id);
    record.native_stack_id = static_cast<std::uint32_t>(fields.native_stack_id);
    record.extra = fields.extra;
    sequence_ = record.sequence;
    timestamp_ns_ = record.timestamp_ns;
    remember(kind, record.sequence, fields);
    return begin + bytes;
}

}  // namespace msmemscope::format
