#include "collectives.h"

#include <string>

#include "element_types.h"

namespace virtual_npu {
namespace {

// Below this it is quicker that every rank adds everything up than that the ranks meet once more.
constexpr uint64_t kReducedByEachRank = 32 << 10;

std::vector<const std::byte*> slots_from(const Exchange& call, uint64_t offset) {
    std::vector<const std::byte*> sources(call.size());
    for (uint32_t rank = 0; rank < call.size(); ++rank) sources[rank] = call.slot(rank) + offset;
    return sources;
}

template <typename Part>
uint64_t longest_of(const std::vector<Part>& parts) {
    uint64_t longest = 0;
    for (const Part& part : parts) longest = std::max(longest, part.bytes);
    return longest;
}

}  // namespace

int all_reduce(Exchange& call, const std::byte* input, std::byte* output, uint64_t count, Reduced reduced) {
    const uint64_t width = element_bytes(reduced.type);
    const uint64_t most = kSlotBytes / width;
    for (uint64_t begin = 0; begin < count; begin += most) {
        const uint64_t length = std::min(most, count - begin);
        std::byte* target = output + begin * width;
        std::memcpy(call.begin_step(), input + begin * width, length * width);
        int status = call.finish_step();
        if (status != 0) return status;
        if (call.size() == 1 || length * width * call.size() <= kReducedByEachRank) {
            reduce(reduced.type, reduced.reduction, slots_from(call, 0).data(), call.size(), length, target);
            continue;
        }
        // Each rank reduces its share and shows the result to the others.
        const auto share_begin = [&](uint64_t rank) { return length * rank / call.size() * width; };
        const uint64_t own_begin = share_begin(call.rank());
        const uint64_t own_bytes = share_begin(call.rank() + 1) - own_begin;
        reduce(reduced.type, reduced.reduction, slots_from(call, own_begin).data(), call.size(), own_bytes / width,
               target + own_begin);
        std::memcpy(call.begin_step() + own_begin, target + own_begin, own_bytes);
        status = call.finish_step();
        if (status != 0) return status;
        for (uint32_t rank = 0; rank < call.size(); ++rank) {
            if (rank == call.rank()) continue;
            std::memcpy(target + share_begin(rank), call.slot(rank) + share_begin(rank),
                        share_begin(rank + 1) - share_begin(rank));
        }
    }
    return kHcclSuccess;
}

int reduce_to_root(Exchange& call, Piece input, std::byte* output, uint32_t root, Reduced reduced) {
    return call.share(input, input.bytes, [&](uint64_t offset, uint64_t length) {
        if (call.rank() != root) return;
        reduce(reduced.type, reduced.reduction, slots_from(call, 0).data(), call.size(),
               length / element_bytes(reduced.type), output + offset);
    });
}

int broadcast(Exchange& call, Place data, uint32_t root) {
    const Piece shown{data.data, call.rank() == root ? data.bytes : 0};
    return call.share(shown, data.bytes, [&](uint64_t offset, uint64_t length) {
        if (call.rank() != root) std::memcpy(data.data + offset, call.slot(root), length);
    });
}

int all_gather(Exchange& call, Piece input, const std::vector<Place>& targets) {
    return call.share(input, longest_of(targets), [&](uint64_t offset, uint64_t length) {
        for (uint32_t rank = 0; rank < call.size(); ++rank) {
            const uint64_t bytes = available(targets[rank].bytes, offset, length);
            if (bytes > 0) std::memcpy(targets[rank].data + offset, call.slot(rank), bytes);
        }
    });
}

int reduce_scatter(Exchange& call, const std::vector<Piece>& pieces, std::byte* output, Reduced reduced) {
    return call.exchange(pieces, longest_of(pieces), [&](uint64_t offset, uint64_t length) {
        const uint64_t bytes = available(pieces[call.rank()].bytes, offset, length);
        if (bytes == 0) return;
        std::vector<const std::byte*> sources(call.size());
        for (uint32_t rank = 0; rank < call.size(); ++rank) sources[rank] = call.piece_of(rank);
        reduce(reduced.type, reduced.reduction, sources.data(), call.size(), bytes / element_bytes(reduced.type),
               output + offset);
    });
}

int scatter(Exchange& call, const std::vector<Piece>& pieces, Place target, uint32_t root) {
    return call.exchange(pieces, target.bytes, [&](uint64_t offset, uint64_t length) {
        std::memcpy(target.data + offset, call.piece_of(root), length);
    });
}

int all_to_all(Exchange& call, const std::vector<Piece>& pieces, const std::vector<Place>& targets, uint64_t longest) {
    return call.exchange(pieces, longest, [&](uint64_t offset, uint64_t length) {
        for (uint32_t rank = 0; rank < call.size(); ++rank) {
            const uint64_t bytes = available(targets[rank].bytes, offset, length);
            if (bytes > 0) std::memcpy(targets[rank].data + offset, call.piece_of(rank), bytes);
        }
    });
}

int agree_on_pieces(Exchange& call, const std::vector<Piece>& pieces, const std::vector<Place>& targets,
                    uint64_t* longest, uint64_t* total) {
    static_assert(kMostRanks * sizeof(uint64_t) <= kSlotBytes);
    auto* own = reinterpret_cast<uint64_t*>(call.begin_step());
    for (uint32_t target = 0; target < call.size(); ++target) own[target] = pieces[target].bytes;
    const int status = call.finish_step();
    if (status != 0) return status;
    *longest = 0;
    *total = 0;
    for (uint32_t source = 0; source < call.size(); ++source) {
        const auto* row = reinterpret_cast<const uint64_t*>(call.slot(source));
        for (uint32_t target = 0; target < call.size(); ++target) {
            *longest = std::max(*longest, row[target]);
            *total += row[target];
        }
        if (row[call.rank()] != targets[source].bytes) {
            return call.communicator().give_up(
                kHcclInvalidParameter, call.name(),
                "rank " + std::to_string(source) + " sends " + std::to_string(row[call.rank()]) + " bytes to rank " +
                    std::to_string(call.rank()) + ", which expects " + std::to_string(targets[source].bytes));
        }
    }
    return kHcclSuccess;
}

}  // namespace virtual_npu
