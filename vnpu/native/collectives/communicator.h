// A communicator as one rank sees it: its place in the shared memory, the steps that all ranks make together, and what
// happens when another rank does not come.
//
// A collective is a row of steps. In a step every rank fills its slot and says so; when all have, each reads what it
// needs from the slots of the others. There are two slots per rank, used in turn: a rank that fills the other slot for
// the next step cannot disturb one that still reads, and none can be two steps behind.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_buffers.h"
#include "rendezvous.h"
#include "segment.h"

namespace virtual_npu {

struct CommunicatorOptions {
    uint64_t buffer_bytes;  // of each of the two buffers on the device
    std::string name;       // empty: one is made
    std::string buffer_name;
    std::chrono::seconds execution_timeout;  // 0: none
    std::chrono::seconds connect_timeout;
};

class Communicator {
public:
    // Takes the rank's place and its device memory, and returns when all ranks have done so. Null with an error text,
    // in all ranks, if one could not. `code` gets the result.
    static std::shared_ptr<Communicator> create(std::unique_ptr<Segment> segment, uint32_t rank,
                                                const CommunicatorOptions& options, int* code);
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    uint32_t rank() const { return rank_; }
    uint32_t size() const { return size_; }
    const char* name() const { return segment_->header().name; }
    const Segment& segment() const { return *segment_; }
    const CommunicatorOptions& options() const { return options_; }

    // The result that this communicator failed with; 0 while it works.
    int failure() const { return segment_->header().failure.load(std::memory_order_acquire); }

    // Not 0, with an error text, if the communicator has failed: it cannot be used any more.
    int enter(const char* call) const;

    // Wakes calls of other threads of this rank; they return an error.
    void abort() { aborted_.store(true); }

    // --- Steps; with the guard of collectives held.
    std::mutex& collectives() { return collectives_; }
    std::byte* begin_step();  // this rank's slot, to be filled
    // All ranks have filled theirs when it returns 0. In the first step of a collective with its signature, which the
    // others' must be equal to.
    int finish_step(const char* call, const CallSignature* signature = nullptr);
    const std::byte* slot(uint32_t rank) const { return segment_->slot(rank, step_); }

    // --- Messages from rank to rank (point_to_point.cpp).
    std::mutex& sends_to(uint32_t peer) { return sends_[peer]; }
    std::mutex& receives_from(uint32_t peer) { return receives_[peer]; }

    // Waits until ready(), which depends on `word` and on what the awaited ranks do. Not 0, with an error text, if that
    // cannot happen any more or takes longer than the execution timeout.
    template <typename Ready>
    int wait(SharedWord* word, const std::vector<uint32_t>& awaited, const char* call, Ready ready);

    // Ends the communicator for all ranks, with the reason. Returns the code.
    int give_up(Result code, const char* call, const std::string& reason);

private:
    struct Trouble {
        Result code = kHcclSuccess;
        std::string reason;
    };

    Communicator(std::unique_ptr<Segment> segment, uint32_t rank, const CommunicatorOptions& options);
    Trouble look_for_trouble(const std::vector<uint32_t>& awaited, Clock::time_point start) const;
    int compare_signatures(const char* call, const CallSignature& own);

    std::unique_ptr<Segment> segment_;
    const uint32_t rank_;
    const uint32_t size_;
    const CommunicatorOptions options_;
    std::shared_ptr<DeviceBuffers> buffers_;
    std::atomic<bool> aborted_{false};
    // Whether all ranks have come: before, the connect timeout counts; a rank that ends before it took its place is not
    // noticed in another way.
    std::atomic<bool> complete_{false};
    std::mutex collectives_;
    uint32_t step_ = 0;
    std::vector<std::mutex> sends_;
    std::vector<std::mutex> receives_;
};

template <typename Ready>
int Communicator::wait(SharedWord* word, const std::vector<uint32_t>& awaited, const char* call, Ready ready) {
    const Clock::time_point start = Clock::now();
    while (true) {
        const uint32_t seen = word->get();
        if (ready()) return kHcclSuccess;
        if (word->wait_while(seen)) continue;
        const Trouble trouble = look_for_trouble(awaited, start);
        // A rank may have done its part and ended right after.
        if (trouble.code != kHcclSuccess && !ready()) return give_up(trouble.code, call, trouble.reason);
    }
}

}  // namespace virtual_npu
