// Reading watched memory: of the host directly, of a device by copies in pieces.
//
// Memory of the host that no known live block holds may disappear at any time. So the kernel is asked to copy it. It
// answers with an error where we would crash.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/writer/device_support.h"
#include "watch/page_memory.h"

namespace msmemscope::watch {

#pragma GCC visibility push(default)

// Addresses. All bytes of it, or with a stride: runs of so many bytes, each so far behind the one before.
struct Range {
    std::uint64_t begin;
    std::uint64_t end;  // exclusive
    std::uint64_t run_bytes = 0;
    std::uint64_t stride_bytes = 0;
};

// One level of a view that does not lie in one piece, outermost first.
struct Dimension {
    std::uint64_t count;
    std::int64_t stride_bytes;
};

// The bytes of a tensor in the order of its elements, as a contiguous copy of it would have them.
struct Content {
    std::uint64_t address = 0;    // of the first element
    std::uint64_t run_bytes = 0;  // that lie in one piece
    Vector<Dimension> outer;

    std::uint64_t bytes() const noexcept;
    // First byte, and the one after the last, of the memory that the view spans.
    std::uint64_t begin() const noexcept;
    std::uint64_t end() const noexcept;
    // The memory that it spans, with its stride if it has only one.
    Range range() const noexcept;
};

// Whether some bytes can lie in both; exact where both have the same stride, or one has none.
bool overlap(const Range& one, const Range& other) noexcept;

struct Reading {
    enum Way : std::uint8_t {
        kDirect,  // of a live block that cannot go away: its free waits for our lock
        kAsked,   // of the host, by the kernel
        kDevice,  // by the device's runtime
    };

    Way way;
    const DeviceSupport* support;  // of kDevice
};

// How memory of a device is to be read. block_is_known: it lies in a live block.
Reading reading_of(format::Device device, bool block_is_known) noexcept;

// Waits until the calling thread's devices have done all they were given.
void synchronize_devices() noexcept;

// Whether memory of all devices can be read now; not while work of one is captured into a graph.
__attribute__((visibility("default"))) bool devices_can_be_read() noexcept;

// Takes pieces one after the other; each but the last is a multiple of kSegmentBytes.
using TakePiece = void (*)(void* context, const void* bytes, std::size_t count);

// Copies memory of the host that may not be there. False if it is not.
bool copy_if_readable(void* target, std::uint64_t source, std::size_t bytes) noexcept;

// False if the memory cannot be read (any more); some pieces may have been taken.
bool read_content(const Content& content, Reading reading, TakePiece take, void* context) noexcept;

#pragma GCC visibility pop

}  // namespace msmemscope::watch
