// The memory that the ranks of a communicator share: a memory file without a name, which the host of the meeting
// (rendezvous.h) makes and hands to the others. It is gone with the last process that has it, however that ends, and
// it does not depend on the size of /dev/shm.
//
//   header | one block per rank | two slots per rank | one ring per ordered pair of ranks
//
// Collectives pass through the slots, which are used in turn (communicator.h); messages from one rank to another pass
// through the rings (point_to_point.cpp). Only pages that were written exist.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "functions.h"
#include "interface.h"
#include "shared_word.h"

namespace virtual_npu {

constexpr uint32_t kMostRanks = 1024;
constexpr size_t kSlotBytes = size_t{1} << 20;

// What a rank says about the collective that it is in. All ranks of a communicator must say the same.
struct CallSignature {
    Function function;
    int32_t type;       // kNothing: none
    int32_t reduction;  // kNothing: none
    int64_t root;       // kNothing: none
    uint64_t count;     // 0 where each rank has its own
    uint64_t digest;    // of the counts, where there is one for each rank and all ranks know all
};
constexpr int32_t kNothing = -1;

enum class RankState : uint32_t { kAbsent = 0, kAttached = 1, kLeft = 2 };

struct RankBlock {
    alignas(64) SharedWord steps;     // steps of collectives that this rank has reached
    alignas(64) SharedWord activity;  // changed by a peer when it did something to a ring of this rank
    alignas(64) std::atomic<RankState> state;
    uint64_t process[2];          // tells ranks of one process from ranks of another
    CallSignature signatures[2];  // as the slots, used in turn
};

struct Header {
    uint64_t magic;
    uint32_t rank_count;
    uint64_t ring_bytes;
    uint8_t secret[16];  // from which the meeting points of sub communicators are made
    char name[kCommunicatorNameBytes];

    // The first rank that gives up says why; then all others give up too.
    std::atomic<uint32_t> failing;  // 1 once a rank is writing the text
    std::atomic<int32_t> failure;   // a Result; the text is complete once it is not 0
    uint32_t failed_rank;
    char failure_text[384];
};

// Bytes produced and consumed since the begin; both only grow.
struct RingPositions {
    alignas(64) std::atomic<uint64_t> produced;
    alignas(64) std::atomic<uint64_t> consumed;
};

class Segment {
public:
    // Makes the memory of a new communicator. Null, with errno, if the machine refuses.
    static std::unique_ptr<Segment> create(uint32_t rank_count, const char* name);
    // Maps what another rank has made; takes the descriptor over. Null if it is not such memory.
    static std::unique_ptr<Segment> open(int descriptor);
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    int descriptor() const { return descriptor_; }
    Header& header() const { return *reinterpret_cast<Header*>(base_); }
    RankBlock& block(uint32_t rank) const;
    std::byte* slot(uint32_t rank, uint32_t turn) const;
    RingPositions& ring_positions(uint32_t source, uint32_t target) const;
    std::byte* ring(uint32_t source, uint32_t target) const;

    // Takes the place of a rank. From now on others see whether its process lives. False if the place is taken.
    bool attach(uint32_t rank);
    void leave(uint32_t rank);
    bool process_alive(uint32_t rank) const;

private:
    Segment(int descriptor, std::byte* base, uint64_t bytes) : descriptor_(descriptor), base_(base), bytes_(bytes) {}

    int descriptor_;
    std::byte* base_;
    uint64_t bytes_;
    bool attached_ = false;
};

}  // namespace virtual_npu
