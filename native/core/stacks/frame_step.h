// Whether the unwinder can step out of a frame and read only memory that is there.
//
// The unwinder believes the stack, and the stack can be wrong. A greenlet may have taken a piece of it away. The
// outermost function of a coroutine may return to something else. Then the unwinder finds an old address of some
// function. It takes the bytes there for that function's frame, and reads where nothing is mapped. So the place of each
// frame is worked out before the unwinder goes there.
#pragma once

#include <unwind.h>

#include <cstdint>

namespace msmemscope {

// Memory that can be read: from where the call stack is now to its end, and pages that the kernel is asked for.
class ReadableMemory {
public:
    // The end of the stack, or 0 if it is not known.
    explicit ReadableMemory(std::uint64_t stack_end) noexcept : stack_end_(stack_end) {}

    // Whether the eight bytes at an address can be read.
    bool has_word(std::uint64_t address) noexcept;

private:
    bool has_byte(std::uint64_t address) noexcept;

    std::uint64_t stack_end_;
    std::uint64_t page_ = 1;  // the last one that could be read; no page begins at 1
};

// The unwind tables of one function, and the address in it for which they were looked up.
struct FrameTables {
    const unsigned char* description = nullptr;  // a frame description entry (FDE) of .eh_frame
    std::uint64_t function = 0;
    std::uint64_t address = 0;
};

// The state of a walk over the frames so far.
struct FrameWalk {
    FrameTables tables;
    bool all_registers =
        false;  // behind a signal handler's frame every register has a value, not only the preserved ones
};

// Call it when the unwinder visits a frame. False: the walk must end with this frame.
bool can_step_out(_Unwind_Context* context, FrameWalk& walk, ReadableMemory& memory) noexcept;

}  // namespace msmemscope
