// The exported collectives: check the arguments, and turn counts of elements into bytes. Whatever is put on a stream
// here has happened when the call returns, unless the stream has a detour (stream_work.h).
#include "call_errors.h"
#include "collectives.h"
#include "element_types.h"
#include "on_stream.h"
#include "registry.h"

namespace virtual_npu {
namespace {

std::byte* bytes_at(const void* pointer, uint64_t offset = 0) {
    return static_cast<std::byte*>(const_cast<void*>(pointer)) + offset;
}

CallSignature signature_of(Function function, int type = kNothing, uint64_t count = 0) {
    return {function, type, kNothing, kNothing, count, 0};
}

// The same counts have the same digest; never 0.
uint64_t digest_of(const uint64_t* counts, uint64_t count) {
    uint64_t digest = 0xcbf29ce484222325;
    for (uint64_t index = 0; index < count; ++index) digest = (digest ^ counts[index]) * 0x100000001b3;
    return digest | 1;
}

// Parts of a buffer, one for each rank, at displacements that are counted in elements, or one after the other.
template <typename Part>
std::vector<Part> parts_of(const void* buffer, const uint64_t* counts, const uint64_t* displacements, uint64_t ranks,
                           uint64_t width) {
    std::vector<Part> parts(ranks);
    uint64_t next = 0;
    for (uint64_t rank = 0; rank < ranks; ++rank) {
        const uint64_t begin = displacements != nullptr ? displacements[rank] : next;
        parts[rank] = {bytes_at(buffer, begin * width), counts[rank] * width};
        next += counts[rank];
    }
    return parts;
}

template <typename Part>
std::vector<Part> equal_parts_of(const void* buffer, uint64_t bytes_each, uint64_t ranks) {
    std::vector<Part> parts(ranks);
    for (uint64_t rank = 0; rank < ranks; ++rank) parts[rank] = {bytes_at(buffer, rank * bytes_each), bytes_each};
    return parts;
}

// What every call begins with. `communicator` is null where `status` is not 0.
struct Begin {
    std::shared_ptr<Communicator> communicator;
    int status;
};

Begin begin(void* handle, const CallSignature& signature) {
    const char* name = function_name(signature.function);
    std::shared_ptr<Communicator> communicator = find_communicator(handle, name);
    if (communicator == nullptr) return {nullptr, handle == nullptr ? kHcclNullPointer : kHcclInvalidParameter};
    int status = communicator->enter(name);
    if (signature.type != kNothing && element_bytes(signature.type) == 0) {
        status = report(kHcclUnsupported, "EI0003: %s: %d is not a data type", name, signature.type);
    } else if (signature.reduction != kNothing && !can_reduce(signature.type, signature.reduction)) {
        status = report(kHcclUnsupported, "EI0003: %s: %s (%d) of %s elements is not possible", name,
                        reduction_name(signature.reduction), signature.reduction, type_name(signature.type));
    } else if (signature.root != kNothing && signature.root >= communicator->size()) {
        status = report(kHcclInvalidParameter, "EI0003: %s: root %lld of %u ranks", name,
                        static_cast<long long>(signature.root), communicator->size());
    }
    if (status != kHcclSuccess) communicator = nullptr;
    return {std::move(communicator), status};
}

// Counts or displacements of the ranks, or of each pair of them: the caller's array may be gone when they are looked
// at.
using Numbers = std::shared_ptr<const std::vector<uint64_t>>;

Numbers keep_numbers(void* handle, const void* numbers, bool of_pairs = false) {
    const std::shared_ptr<Communicator> communicator = find_communicator(handle, "Hccl");
    if (numbers == nullptr || communicator == nullptr) return nullptr;
    const uint64_t ranks = communicator->size();
    const auto* first = static_cast<const uint64_t*>(numbers);
    return std::make_shared<std::vector<uint64_t>>(first, first + (of_pairs ? ranks * ranks : ranks));
}

const uint64_t* numbers_of(const Numbers& numbers) { return numbers == nullptr ? nullptr : numbers->data(); }

int null_array(Function function) {
    return report(kHcclNullPointer, "EI0003: %s: an array of counts or displacements is missing",
                  function_name(function));
}

}  // namespace
}  // namespace virtual_npu

using namespace virtual_npu;  // NOLINT: the exported functions are nothing but the outside of this namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int HcclBarrier(void* handle, void* stream) {
    return on_stream(stream, [=] {
        const CallSignature signature = signature_of(Function::kBarrier);
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        return Exchange(*start.communicator, signature).synchronize();
    });
}

EXPORTED int HcclAllReduce(void* send, void* receive, uint64_t count, int type, int reduction, void* handle,
                           void* stream) {
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kAllReduce, type, count);
        signature.reduction = reduction;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        if (!call.moves(count * element_bytes(type))) return call.synchronize();
        return all_reduce(call, bytes_at(send), bytes_at(receive), count, {type, reduction});
    });
}

EXPORTED int HcclReduce(void* send, void* receive, uint64_t count, int type, int reduction, uint32_t root, void* handle,
                        void* stream) {
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kReduce, type, count);
        signature.reduction = reduction;
        signature.root = root;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = count * element_bytes(type);
        if (!call.moves(bytes)) return call.synchronize();
        return reduce_to_root(call, {bytes_at(send), bytes}, bytes_at(receive), root, {type, reduction});
    });
}

EXPORTED int HcclBroadcast(void* buffer, uint64_t count, int type, uint32_t root, void* handle, void* stream) {
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kBroadcast, type, count);
        signature.root = root;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = count * element_bytes(type);
        if (!call.moves(bytes)) return call.synchronize();
        return broadcast(call, {bytes_at(buffer), bytes}, root);
    });
}

EXPORTED int HcclAllGather(void* send, void* receive, uint64_t count, int type, void* handle, void* stream) {
    return on_stream(stream, [=] {
        const CallSignature signature = signature_of(Function::kAllGather, type, count);
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = count * element_bytes(type);
        if (!call.moves(bytes * call.size())) return call.synchronize();
        return all_gather(call, {bytes_at(send), bytes}, equal_parts_of<Place>(receive, bytes, call.size()));
    });
}

EXPORTED int HcclAllGatherV(void* send, uint64_t count, void* receive, const void* receive_counts,
                            const void* receive_displacements, int type, void* handle, void* stream) {
    const auto kept_receive_counts = keep_numbers(handle, receive_counts);
    const auto kept_receive_displacements = keep_numbers(handle, receive_displacements);
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kAllGatherV, type);
        Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        if (kept_receive_counts == nullptr || kept_receive_displacements == nullptr)
            return null_array(signature.function);
        const auto* counts = numbers_of(kept_receive_counts);
        const Communicator& communicator = *start.communicator;
        if (counts[communicator.rank()] != count) {
            return report(
                kHcclInvalidParameter, "EI0003: HcclAllGatherV: this rank gives %llu elements and expects %llu",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(counts[communicator.rank()]));
        }
        signature.digest = digest_of(counts, communicator.size());
        const uint64_t width = element_bytes(type);
        const auto targets =
            parts_of<Place>(receive, counts, numbers_of(kept_receive_displacements), communicator.size(), width);
        Exchange call(*start.communicator, signature);
        if (!call.moves(total_bytes(targets))) return call.synchronize();
        return all_gather(call, {bytes_at(send), count * width}, targets);
    });
}

EXPORTED int HcclReduceScatter(void* send, void* receive, uint64_t count, int type, int reduction, void* handle,
                               void* stream) {
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kReduceScatter, type, count);
        signature.reduction = reduction;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = count * element_bytes(type);
        if (!call.moves(bytes * call.size())) return call.synchronize();
        return reduce_scatter(call, equal_parts_of<Piece>(send, bytes, call.size()), bytes_at(receive),
                              {type, reduction});
    });
}

EXPORTED int HcclReduceScatterV(void* send, const void* send_counts, const void* send_displacements, void* receive,
                                uint64_t count, int type, int reduction, void* handle, void* stream) {
    const auto kept_send_counts = keep_numbers(handle, send_counts);
    const auto kept_send_displacements = keep_numbers(handle, send_displacements);
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kReduceScatterV, type);
        signature.reduction = reduction;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        if (kept_send_counts == nullptr || kept_send_displacements == nullptr) return null_array(signature.function);
        const auto* counts = numbers_of(kept_send_counts);
        const Communicator& communicator = *start.communicator;
        if (counts[communicator.rank()] != count) {
            return report(
                kHcclInvalidParameter, "EI0003: HcclReduceScatterV: this rank expects %llu elements and gets %llu",
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(counts[communicator.rank()]));
        }
        signature.digest = digest_of(counts, communicator.size());
        const auto pieces = parts_of<Piece>(send, counts, numbers_of(kept_send_displacements), communicator.size(),
                                            element_bytes(type));
        Exchange call(*start.communicator, signature);
        if (!call.moves(total_bytes(pieces))) return call.synchronize();
        return reduce_scatter(call, pieces, bytes_at(receive), {type, reduction});
    });
}

EXPORTED int HcclScatter(void* send, void* receive, uint64_t count, int type, uint32_t root, void* handle,
                         void* stream) {
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kScatter, type, count);
        signature.root = root;
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = count * element_bytes(type);
        if (!call.moves(bytes * call.size())) return call.synchronize();
        std::vector<Piece> pieces;
        if (call.rank() == root) pieces = equal_parts_of<Piece>(send, bytes, call.size());
        return scatter(call, pieces, {bytes_at(receive), bytes}, root);
    });
}

EXPORTED int HcclAlltoAll(const void* send, uint64_t send_count, int send_type, const void* receive,
                          uint64_t receive_count, int receive_type, void* handle, void* stream) {
    return on_stream(stream, [=] {
        const CallSignature signature = signature_of(Function::kAllToAll, send_type, send_count);
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        if (send_type != receive_type || send_count != receive_count) {
            return report(kHcclInvalidParameter, "EI0003: HcclAlltoAll: sends %llu %s and receives %llu %s",
                          static_cast<unsigned long long>(send_count), type_name(send_type),
                          static_cast<unsigned long long>(receive_count), type_name(receive_type));
        }
        Exchange call(*start.communicator, signature);
        const uint64_t bytes = send_count * element_bytes(send_type);
        if (!call.moves(bytes * call.size())) return call.synchronize();
        return all_to_all(call, equal_parts_of<Piece>(send, bytes, call.size()),
                          equal_parts_of<Place>(receive, bytes, call.size()), bytes);
    });
}

EXPORTED int HcclAlltoAllV(const void* send, const void* send_counts, const void* send_displacements, int send_type,
                           const void* receive, const void* receive_counts, const void* receive_displacements,
                           int receive_type, void* handle, void* stream) {
    const auto kept_send_counts = keep_numbers(handle, send_counts);
    const auto kept_send_displacements = keep_numbers(handle, send_displacements);
    const auto kept_receive_counts = keep_numbers(handle, receive_counts);
    const auto kept_receive_displacements = keep_numbers(handle, receive_displacements);
    return on_stream(stream, [=] {
        const CallSignature signature = signature_of(Function::kAllToAllV, send_type);
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        if (kept_send_counts == nullptr || kept_send_displacements == nullptr || kept_receive_counts == nullptr ||
            kept_receive_displacements == nullptr) {
            return null_array(signature.function);
        }
        if (send_type != receive_type) {
            return report(kHcclInvalidParameter, "EI0003: HcclAlltoAllV: sends %s and receives %s",
                          type_name(send_type), type_name(receive_type));
        }
        Exchange call(*start.communicator, signature);
        const uint64_t width = element_bytes(send_type);
        const auto pieces = parts_of<Piece>(send, numbers_of(kept_send_counts), numbers_of(kept_send_displacements),
                                            call.size(), width);
        const auto targets = parts_of<Place>(receive, numbers_of(kept_receive_counts),
                                             numbers_of(kept_receive_displacements), call.size(), width);
        uint64_t longest = 0;
        uint64_t total = 0;
        const int status = agree_on_pieces(call, pieces, targets, &longest, &total);
        if (status != kHcclSuccess || !call.moves(total)) return status;
        return all_to_all(call, pieces, targets, longest);
    });
}

// As HcclAlltoAllV, but every rank knows the counts of all: counts[source][target]. The parts lie one after the other.
EXPORTED int HcclAlltoAllVC(const void* send, const void* count_matrix, int send_type, const void* receive,
                            int receive_type, void* handle, void* stream) {
    const auto kept_count_matrix = keep_numbers(handle, count_matrix, true);
    return on_stream(stream, [=] {
        CallSignature signature = signature_of(Function::kAllToAllVC, send_type);
        const Begin start = begin(handle, signature);
        if (start.status != kHcclSuccess) return start.status;
        if (kept_count_matrix == nullptr) return null_array(signature.function);
        if (send_type != receive_type) {
            return report(kHcclInvalidParameter, "EI0003: HcclAlltoAllVC: sends %s and receives %s",
                          type_name(send_type), type_name(receive_type));
        }
        const auto* counts = numbers_of(kept_count_matrix);
        const uint64_t ranks = start.communicator->size();
        const uint64_t rank = start.communicator->rank();
        const uint64_t width = element_bytes(send_type);
        signature.digest = digest_of(counts, ranks * ranks);
        std::vector<uint64_t> column(ranks);
        uint64_t longest = 0;
        uint64_t total = 0;
        for (uint64_t index = 0; index < ranks * ranks; ++index) {
            longest = std::max(longest, counts[index] * width);
            total += counts[index] * width;
            if (index % ranks == rank) column[index / ranks] = counts[index];
        }
        Exchange call(*start.communicator, signature);
        if (!call.moves(total)) return call.synchronize();
        return all_to_all(call, parts_of<Piece>(send, counts + rank * ranks, nullptr, ranks, width),
                          parts_of<Place>(receive, column.data(), nullptr, ranks, width), longest);
    });
}
