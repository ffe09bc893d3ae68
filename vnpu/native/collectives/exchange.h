// The two ways in which data goes through the slots, a slot's worth at a time: every rank shows the same bytes to all,
// or every rank has a piece for each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "communicator.h"
#include "element_types.h"
#include "functions.h"
#include "settings.h"

namespace virtual_npu {

struct Piece {
    const std::byte* data = nullptr;
    uint64_t bytes = 0;
};
// Where bytes go.
struct Place {
    std::byte* data = nullptr;
    uint64_t bytes = 0;
};

template <typename Part>
uint64_t total_bytes(const std::vector<Part>& parts) {
    uint64_t total = 0;
    for (const Part& part : parts) total += part.bytes;
    return total;
}

// Whether elements are worth moving them: see settings.h.
inline bool data_matters(uint64_t bytes, int type) {
    return settings().compute == Compute::kCpu || bytes <= most_bytes_moved_without_compute(is_whole_number(type));
}

// One collective while it runs.
class Exchange {
public:
    Exchange(Communicator& communicator, const CallSignature& signature)
        : communicator_(communicator), signature_(signature), lock_(communicator.collectives()) {}

    uint32_t rank() const { return communicator_.rank(); }
    uint32_t size() const { return communicator_.size(); }
    const char* name() const { return function_name(signature_.function); }
    Communicator& communicator() { return communicator_; }

    std::byte* begin_step() { return communicator_.begin_step(); }
    int finish_step() {
        const CallSignature* signature = first_ ? &signature_ : nullptr;
        first_ = false;
        return communicator_.finish_step(name(), signature);
    }
    const std::byte* slot(uint32_t rank) const { return communicator_.slot(rank); }

    // Whether there is anything to move; `bytes` is the same on all ranks.
    bool moves(uint64_t bytes) const { return bytes > 0 && data_matters(bytes, signature_.type); }

    // The ranks meet, and nothing is moved.
    int synchronize() {
        begin_step();
        return finish_step();
    }

    // Every rank shows its bytes; `longest` is the largest number of them, the same on all ranks. take(offset, length)
    // is called while slot(rank) holds up to `length` bytes of that rank from `offset` on.
    template <typename Take>
    int share(Piece own, uint64_t longest, Take take) {
        for (uint64_t offset = 0; offset < longest; offset += kSlotBytes) {
            std::byte* slot = begin_step();
            if (offset < own.bytes)
                std::memcpy(slot, own.data + offset, std::min<uint64_t>(kSlotBytes, own.bytes - offset));
            const int status = finish_step();
            if (status != 0) return status;
            take(offset, std::min<uint64_t>(kSlotBytes, longest - offset));
        }
        return 0;
    }

    // Every rank has a piece for each other one, or none for any. take(offset, length) is called while
    // piece_of(rank, length) holds up to `length` bytes, from `offset` on, of what that rank has for this one.
    template <typename Take>
    int exchange(const std::vector<Piece>& outgoing, uint64_t longest, Take take) {
        const uint64_t capacity = piece_capacity();
        for (uint64_t offset = 0; offset < longest; offset += capacity) {
            std::byte* slot = begin_step();
            for (size_t target = 0; target < outgoing.size(); ++target) {
                const Piece& piece = outgoing[target];
                if (offset >= piece.bytes) continue;
                std::memcpy(slot + target * capacity, piece.data + offset, std::min(capacity, piece.bytes - offset));
            }
            const int status = finish_step();
            if (status != 0) return status;
            take(offset, std::min(capacity, longest - offset));
        }
        return 0;
    }
    const std::byte* piece_of(uint32_t source) const { return slot(source) + rank() * piece_capacity(); }

private:
    // Whole elements of any type.
    uint64_t piece_capacity() const { return kSlotBytes / size() & ~uint64_t{63}; }

    Communicator& communicator_;
    const CallSignature signature_;
    const std::lock_guard<std::mutex> lock_;
    bool first_ = true;
};

// Of the bytes from `offset` on, how many of at most `length` there are.
inline uint64_t available(uint64_t bytes, uint64_t offset, uint64_t length) {
    return offset < bytes ? std::min(length, bytes - offset) : 0;
}

}  // namespace virtual_npu
