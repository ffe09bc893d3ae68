// Memory of the host that is no tensor: a sample of the allocations of the whole process, each with its call stack.
//
// Every allocated byte has the same chance of being sampled. The distances between sampled bytes have an exponential
// distribution (a Poisson process) with a mean of 512 KiB, or as the settings say. With a mean of 0 each allocation is
// recorded. A program without a framework begins with a mean of 64 KiB.
// - An allocation of s bytes is sampled with a chance of 1 - exp(-s / mean).
// - It stands for s / (1 - exp(-s / mean)) bytes.
//
// Sums of these are right on average, whatever the sizes. A thread with more than one sample per 250 us takes a larger
// mean, after a burst of 128 samples. The mean depends only on earlier samples, so the sums stay right.
//
// An allocation that is not sampled costs a subtraction and a branch. A free of such a block costs one look at a table
// of 64 KiB. Nothing here takes a lock or allocates. The samples lie in ProcessState, which fork wipes. So a child
// begins without samples, and says nothing of blocks that its parent allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/writer/process_state.h"

namespace msmemscope {

namespace host_samples {

// The calling thread's way to its next sample. All zeros: the thread has not allocated yet.
struct ThreadSampler {
    std::uint64_t bytes_left;
    std::uint64_t mean_bytes;
    std::uint64_t random;
    std::uint64_t pace_ns;  // when its next sample would come at the pace that a thread may keep
};
extern __attribute__((tls_model("initial-exec"))) __thread ThreadSampler thread_sampler;

// Where in the filter an address counts. Blocks of the C library lie at multiples of 16 bytes.
inline std::size_t filter_place(std::uint64_t address) noexcept {
    return static_cast<std::size_t>((address >> 4U) ^ (address >> 20U)) % kHostFilterBytes;
}

// To be asked once for each allocation: whether it is to be shown to note_allocation. Also true where a thread has not
// allocated yet.
__attribute__((always_inline)) inline bool is_due(std::uint64_t bytes) noexcept {
    const std::uint64_t left = thread_sampler.bytes_left;
    thread_sampler.bytes_left = left - bytes;
    return __builtin_expect(left < bytes, 0);
}

// Whether a block may have been sampled: false for nearly all of those that were not.
__attribute__((always_inline)) inline bool may_be_sample(const void* memory) noexcept {
    const ProcessState* const state = process_state;
    return __builtin_expect(state != nullptr, 1) &&
           __builtin_expect(state->host_filter[filter_place(reinterpret_cast<std::uint64_t>(memory))].load(
                                std::memory_order_relaxed) != 0,
                            0);
}

// Whether samples are taken in this process now.
bool are_taken() noexcept;

// Call this for an allocation if is_due() said yes. It decides whether the allocation is sampled, and records it if so.
// Then it draws the distance to the next sample. memory: null if there is none to record. function: the function that
// allocated it ("malloc").
void note_allocation(const void* memory, std::uint64_t bytes, const char* function, const CallSite& site) noexcept;

// A thread takes memory where no allocation is seen: its stack, and its part of the variables of all libraries. It is
// recorded in any case, and again when its stack has grown. place: its pthread_t. stack_bytes: the most of its stack.
void note_thread(const void* place, std::uint64_t stack_bytes, const CallSite& site) noexcept;
// It is about to be joined: its stack is not looked at any more. Call it before take.
void note_end_of_thread(const void* place) noexcept;

struct TakenSample {
    LiveBlock block;
    std::uint64_t resident_bytes;  // of the block, that were in memory
};
// A block that is about to be freed, or moved; it is passed over if it is no sample. To be called before the real call,
// as another thread may be given the address right after it.
bool take(const void* memory, TakenSample& sample) noexcept;
// It was freed.
void note_free(const TakenSample& sample) noexcept;
// Both, for a block that may_be_sample() said yes of.
void end(const void* memory) noexcept;
// It was not freed after all: the call failed.
void put_back(const TakenSample& sample) noexcept;

// Host memory as the program ends, where samples are taken.
void write_last_figure() noexcept;

}  // namespace host_samples

}  // namespace msmemscope
