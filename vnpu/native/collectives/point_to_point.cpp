#include "point_to_point.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "call_errors.h"
#include "element_types.h"
#include "exchange.h"
#include "groups.h"
#include "on_stream.h"
#include "registry.h"

// Each ordered pair of ranks has a ring of bytes; a message is a header and its bytes. A sender goes on as soon as its
// message is in the ring, as one that puts it on a stream does, and waits only where the ring is full.
namespace virtual_npu {
namespace {

// The pages of a region of a ring go back to the machine when it was read: a ring that has gone round would keep all
// of its pages otherwise.
constexpr uint64_t kRegionBytes = uint64_t{1} << 20;
constexpr uint64_t kAlignment = 64;

struct MessageHeader {
    uint64_t count;
    int32_t type;
    uint32_t has_data;  // 0 with compute=none and a large message
};
static_assert(sizeof(MessageHeader) <= kAlignment);

uint64_t aligned(uint64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

// One message on its way into or out of a ring.
class Transfer {
public:
    Transfer(Communicator& communicator, const BatchItem& item)
        : item_(item),
          peer_(item.peer),
          sends_(item.direction == kSend),
          bytes_(item.count * element_bytes(item.type)),
          ring_bytes_(communicator.segment().header().ring_bytes),
          positions_(positions_of(communicator)),
          ring_(ring_of(communicator)) {}

    bool done() const { return done_; }
    uint32_t peer() const { return peer_; }
    uint32_t ring_number() const { return peer_ * 2 + (sends_ ? 1 : 0); }

    // Moves the next piece. False if that is not possible now. `reason` is set if the message is not the one expected.
    bool move(std::string* reason) { return sends_ ? produce() : consume(reason); }

private:
    RingPositions& positions_of(const Communicator& communicator) const {
        return sends_ ? communicator.segment().ring_positions(communicator.rank(), peer_)
                      : communicator.segment().ring_positions(peer_, communicator.rank());
    }
    std::byte* ring_of(const Communicator& communicator) const {
        return sends_ ? communicator.segment().ring(communicator.rank(), peer_)
                      : communicator.segment().ring(peer_, communicator.rank());
    }

    bool produce() {
        const uint64_t produced = positions_.produced.load(std::memory_order_relaxed);
        // A region that was read in part will be emptied as a whole: nothing may be written there before.
        const uint64_t consumed = positions_.consumed.load(std::memory_order_acquire);
        const uint64_t room = ring_bytes_ - (produced - consumed / kRegionBytes * kRegionBytes);
        if (!header_done_) {
            if (room < kAlignment) return false;
            const MessageHeader header{item_.count, item_.type,
                                       bytes_ > 0 && data_matters(bytes_, item_.type) ? 1u : 0u};
            std::memcpy(ring_ + produced % ring_bytes_, &header, sizeof header);
            positions_.produced.store(produced + kAlignment, std::memory_order_release);
            header_done_ = true;
            done_ = header.has_data == 0;
            return true;
        }
        // In pieces, so that the receiver can begin before everything is there. All but the last are multiples of the
        // alignment, as all positions are: where there is room for the last one, there is room up to the next header.
        const uint64_t begin = produced % ring_bytes_;
        const uint64_t length = std::min({room, bytes_ - offset_, kRegionBytes, ring_bytes_ - begin});
        if (length == 0) return false;
        std::memcpy(ring_ + begin, static_cast<const std::byte*>(item_.data) + offset_, length);
        offset_ += length;
        done_ = offset_ == bytes_;
        positions_.produced.store(produced + aligned(length), std::memory_order_release);
        return true;
    }

    bool consume(std::string* reason) {
        const uint64_t consumed = positions_.consumed.load(std::memory_order_relaxed);
        const uint64_t available = positions_.produced.load(std::memory_order_acquire) - consumed;
        if (available == 0) return false;
        const uint64_t begin = consumed % ring_bytes_;
        if (!header_done_) {
            MessageHeader header{};
            std::memcpy(&header, ring_ + begin, sizeof header);
            if (header.count * element_bytes(header.type) != bytes_) {
                *reason = "rank " + std::to_string(peer_) + " sends " + std::to_string(header.count) + " " +
                          type_name(header.type) + ", this rank expects " + std::to_string(item_.count) + " " +
                          type_name(item_.type);
                return false;
            }
            consumed_up_to(consumed, consumed + kAlignment);
            header_done_ = true;
            done_ = header.has_data == 0;
            return true;
        }
        const uint64_t length = std::min({available, bytes_ - offset_, kRegionBytes, ring_bytes_ - begin});
        std::memcpy(static_cast<std::byte*>(item_.data) + offset_, ring_ + begin, length);
        offset_ += length;
        done_ = offset_ == bytes_;
        consumed_up_to(consumed, consumed + aligned(length));
        return true;
    }

    // Gives the pages of a region back that was read to its end, before the sender learns of it.
    void consumed_up_to(uint64_t before, uint64_t now) {
        const uint64_t finished = before / kRegionBytes;
        if (now / kRegionBytes > finished) {
            madvise(ring_ + finished * kRegionBytes % ring_bytes_, kRegionBytes, MADV_REMOVE);
        }
        positions_.consumed.store(now, std::memory_order_release);
    }

    const BatchItem item_;
    const uint32_t peer_;
    const bool sends_;
    const uint64_t bytes_;
    const uint64_t ring_bytes_;
    RingPositions& positions_;
    std::byte* const ring_;
    uint64_t offset_ = 0;
    bool header_done_ = false;
    bool done_ = false;
};

// Messages between the same two ranks in the same direction follow each other; all others move independently.
class Batch {
public:
    Batch(Communicator& communicator, const BatchItem* items, uint32_t count, const char* name)
        : communicator_(communicator), name_(name) {
        std::set<std::mutex*> guards;  // in one order for all batches
        for (uint32_t index = 0; index < count; ++index) {
            transfers_.emplace_back(communicator, items[index]);
            guards.insert(items[index].direction == kSend ? &communicator.sends_to(items[index].peer)
                                                          : &communicator.receives_from(items[index].peer));
        }
        for (std::mutex* guard : guards) locks_.emplace_back(*guard);
    }

    int run() {
        SharedWord& activity = communicator_.segment().block(communicator_.rank()).activity;
        while (true) {
            std::vector<uint32_t> awaited;
            for (const Transfer& transfer : transfers_) {
                if (!transfer.done()) awaited.push_back(transfer.peer());
            }
            if (awaited.empty()) return kHcclSuccess;
            std::string reason;
            const int status = communicator_.wait(&activity, awaited, name_, [&] { return move_all(&reason); });
            if (status != kHcclSuccess) return status;
            if (!reason.empty()) return communicator_.give_up(kHcclInvalidParameter, name_, reason);
        }
    }

private:
    // One piece of each message that can move. True if there was one, or a reason to stop.
    bool move_all(std::string* reason) {
        bool moved = false;
        std::vector<bool> occupied(size_t{communicator_.size()} * 2);
        for (Transfer& transfer : transfers_) {
            if (transfer.done() || occupied[transfer.ring_number()]) continue;
            if (transfer.move(reason)) {
                moved = true;
                communicator_.segment().block(transfer.peer()).activity.increase();
            }
            if (!reason->empty()) return true;
            occupied[transfer.ring_number()] = !transfer.done();
        }
        return moved;
    }

    Communicator& communicator_;
    const char* const name_;
    std::vector<Transfer> transfers_;
    std::vector<std::unique_lock<std::mutex>> locks_;
};

}  // namespace

int run_batch(void* handle, const BatchItem* items, uint32_t count, const char* name) {
    const std::shared_ptr<Communicator> communicator = find_communicator(handle, name);
    if (communicator == nullptr) return handle == nullptr ? kHcclNullPointer : kHcclInvalidParameter;
    const int status = communicator->enter(name);
    if (status != kHcclSuccess) return status;
    if (items == nullptr && count > 0) return report(kHcclNullPointer, "EI0003: %s: no array of messages", name);
    for (uint32_t index = 0; index < count; ++index) {
        const BatchItem& item = items[index];
        if (item.peer >= communicator->size() || (item.direction != kSend && item.direction != kReceive)) {
            return report(kHcclInvalidParameter, "EI0003: %s: message %u: direction %d, rank %u of %u", name, index,
                          item.direction, item.peer, communicator->size());
        }
        if (element_bytes(item.type) == 0) {
            return report(kHcclUnsupported, "EI0003: %s: message %u: %d is not a data type", name, index, item.type);
        }
    }
    return Batch(*communicator, items, count, name).run();
}

namespace {

int run_or_defer(void* handle, const BatchItem& item, const char* name, void* stream) {
    if (!in_group()) return on_stream(stream, [=] { return run_batch(handle, &item, 1, name); });
    add_to_group(handle, item, stream);
    return kHcclSuccess;
}

}  // namespace
}  // namespace virtual_npu

using virtual_npu::BatchItem;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int HcclSend(void* data, uint64_t count, int type, uint32_t target, void* handle, void* stream) {
    return virtual_npu::run_or_defer(handle, {virtual_npu::kSend, data, count, type, target}, "HcclSend", stream);
}

EXPORTED int HcclRecv(void* data, uint64_t count, int type, uint32_t source, void* handle, void* stream) {
    return virtual_npu::run_or_defer(handle, {virtual_npu::kReceive, data, count, type, source}, "HcclRecv", stream);
}

EXPORTED int HcclBatchSendRecv(BatchItem* items, uint32_t count, void* handle, void* stream) {
    const std::vector<BatchItem> kept =
        items == nullptr ? std::vector<BatchItem>() : std::vector<BatchItem>(items, items + count);
    return virtual_npu::on_stream(stream, [kept, is_missing = items == nullptr, count, handle] {
        return virtual_npu::run_batch(handle, is_missing ? nullptr : kept.data(), count, "HcclBatchSendRecv");
    });
}
