// Watching memory: who overwrote it?
//
// Observers of operators tell when one begins and ends. Watched memory is looked at both times. A change becomes an
// event (FORMAT.md, "Watched memory"). The content goes to files (dump_files.h). While nothing is watched, all of it
// costs one branch: is_active().
//
// One lock holds everything together. Frees of observed blocks wait for it (block_ends), so memory of a known block
// cannot go away while it is read. None of these functions may be called inside a RecordingScope.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/writer/live_blocks.h"
#include "core/writer/recorder.h"
#include "watch/memory_reader.h"

namespace msmemscope::watch {

// The memory that an operator may write: everything that overlaps these ranges.
struct Writes {
    const Range* ranges = nullptr;
    std::size_t count = 0;
    bool are_known = true;
    // Written some time after it has returned, by another thread: communication.
    bool come_later = false;
};

// The observer that tells of an operator. On a thread one of each can run at a time: kernels within operators, and
// operators within graphs that torch has compiled.
enum class Source : std::uint8_t { kAten = 0, kAtb = 1, kAtbKernel = 2, kKernel = 3, kGraph = 4 };

struct Operator {
    Source source;
    const char* name;  // what --watch calls it
    std::size_t name_bytes;
    std::uint64_t call;  // number of this call, from 1; 0: count it here
    format::Device device;
};

struct Output {
    Content content;
    format::Device device;
};

// A trained tensor is one that an optimizer is meant to write.
enum class Target : std::uint8_t { kTensor, kTrainedTensor, kAddress, kWindow };

#pragma GCC visibility push(default)

// Bits, for observers that ask in front of everything else.
enum Activity : std::uint32_t {
    kWatchesOperators = 1U << 0U,  // something is watched, or will be when an operator has run
    kFollowsBlocks = 1U << 1U,     // every allocation matters (auto)
    kConcernsDevice = 1U << 2U,    // something watched is memory of a device
};
extern std::atomic<std::uint32_t> activity;
inline bool is_active() noexcept { return activity.load(std::memory_order_relaxed) != 0; }
inline bool concerns_device() noexcept { return (activity.load(std::memory_order_relaxed) & kConcernsDevice) != 0; }

// To be called when the recorder has been configured.
void apply_settings() noexcept;

// Watches memory under a name, in place of an earlier watch at the same address. dump_count: looks to write, -1 for all
// of them. Returns the watch's number, from 1; 0 if the memory cannot be read.
std::uint32_t add(Target target, const Content& content, format::Device device, const char* name,
                  std::int64_t dump_count) noexcept;
// Ends the watch of the memory that begins at an address; bytes 0: whatever its length. False if there is none.
bool remove(std::uint64_t address, std::uint64_t bytes) noexcept;
// The memory of a watch is gone, as somebody else knows.
void memory_ends(std::uint32_t number) noexcept;
// Whether a live block holds this address: then its end is noticed here.
bool is_in_known_block(std::uint64_t address) noexcept;
// The device of the live block that holds an address; kDeviceNone if none is known.
format::Device device_at(std::uint64_t address) noexcept;

void operator_begins(const Operator& one, const Writes& writes) noexcept;
// writes: further ones, that are known only now. outputs: all results, in order.
void operator_ends(const Operator& one, const Writes& writes, const Output* outputs, std::size_t output_count) noexcept;
// A kernel whose name is known only when it has been launched.
void kernel_begins() noexcept;
void kernel_ends(const char* name, std::size_t name_bytes, format::Device device) noexcept;
// Whether launches of kernels are to be told.
bool watches_kernels() noexcept;
// Whether the operator opens the window of --watch: then its outputs are asked for.
bool asks_for_outputs(const char* name, std::size_t name_bytes) noexcept;

// The process ends, and all watches end with it. To be called before the recorder is closed.
void finish() noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::watch
