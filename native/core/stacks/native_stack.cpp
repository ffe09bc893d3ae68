// Native stacks by the unwinder, and a way around it for stacks that were seen before.
//
// Unwinding reads the tables of every function on the way, about a hundred nanoseconds a frame. But after one unwinding
// it is known where the return addresses of that stack lie. A later call may come from the same place at the same
// depth. If every one of those slots still holds the same address, it is the same stack.
//
// Frames of one function at one return address have one size. So from the innermost frame outwards, each slot really
// holds the next return address. Only frames of varying size (alloca) could in theory leave an old address in its old
// slot. They would have to do so in all outer frames as well.
#include "core/stacks/native_stack.h"

#include <pthread.h>
#include <setjmp.h>  // NOLINT(modernize-deprecated-headers) - _setjmp
#include <unistd.h>
#include <unwind.h>

#include <algorithm>

#include "core/stacks/frame_step.h"
#include "core/stacks/modules.h"
#include "core/stacks/unwind_tables.h"
#include "core/writer/hash.h"
#include "core/writer/keep_errno.h"
#include "core/writer/library_list.h"
#include "core/writer/process_state.h"

extern "C" {
// The end of the main thread's stack; from the dynamic loader.
extern void* __libc_stack_end;  // NOLINT(bugprone-reserved-identifier)

// Of libgcc (unwind-dw2-fde.h): what it finds besides the tables.
struct dwarf_eh_bases {
    void* tbase;
    void* dbase;
    void* func;
};
}

namespace msmemscope {
namespace {

struct Walk {
    std::uint64_t* frames;
    std::uint64_t* slots;  // kMostFrames of them
    std::uint32_t count;
    std::uint32_t depth;
    std::uint64_t caller;
    unsigned skipped;
    bool begun;
    FrameWalk frame;
    ReadableMemory memory;
    jmp_buf way_out;  // where to go on when the unwinder comes to an address of no function
};

// The walk of this thread that the unwinder is at; null outside of one.
__attribute__((tls_model("initial-exec"))) __thread Walk* current_walk = nullptr;

}  // namespace
}  // namespace msmemscope

// The linked-in unwinder finds the tables of a function by this name, which libgcc would define too. If there are none,
// the unwinder looks at the instructions, as they may be those behind a signal handler. But the return address may be
// none, and then its memory may not be there. Such are the outermost one of a coroutine, and the bytes where a
// greenlet's stack was taken away. So we jump out instead. Nothing is lost: the C library and the kernel bring tables
// for the code behind signal handlers.
extern "C" {
// NOLINTNEXTLINE(bugprone-reserved-identifier)
__attribute__((visibility("hidden"))) const void* _Unwind_Find_FDE(void* address, dwarf_eh_bases* bases) {
    const auto looked_up = reinterpret_cast<std::uint64_t>(address);
    const msmemscope::FunctionTables tables = msmemscope::find_function_tables(looked_up);
    bases->tbase = nullptr;  // only machines of other kinds have them
    bases->dbase = nullptr;
    bases->func = reinterpret_cast<void*>(tables.function);
    msmemscope::Walk* const walk = msmemscope::current_walk;
    if (walk != nullptr) {
        if (tables.description == nullptr) {
            _longjmp(walk->way_out, 1);
        }
        walk->frame.tables = {tables.description, tables.function, looked_up};
    }
    return tables.description;
}
}

namespace msmemscope {
namespace {

// Calls visit for each frame, outwards, until it has enough or there are no more.
__attribute__((noinline)) void unwind(_Unwind_Trace_Fn visit, Walk& walk) noexcept {
    if (_setjmp(walk.way_out) == 0) {
        current_walk = &walk;
        _Unwind_Backtrace(visit, &walk);
    }
    current_walk = nullptr;
}

// The most frames of ours between the hook's caller and the unwinder. If there seem to be more, the caller was inlined
// away or called us by a jump. Then the stack is kept from there.
constexpr unsigned kMostOwnFrames = 16;

_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
    auto& walk = *static_cast<Walk*>(argument);
    const auto address = static_cast<std::uint64_t>(_Unwind_GetIP(context));
    if (address == 0) {
        return _URC_END_OF_STACK;  // where the first function of the thread would return to
    }
    if (!walk.begun) {
        walk.begun = address == walk.caller || ++walk.skipped > kMostOwnFrames;
        if (!walk.begun) {
            return can_step_out(context, walk.frame, walk.memory) ? _URC_NO_REASON : _URC_END_OF_STACK;
        }
    }
    if (is_own_code(address)) {  // between two functions of the program: we stand in front of one
        return can_step_out(context, walk.frame, walk.memory) ? _URC_NO_REASON : _URC_END_OF_STACK;
    }
    if (walk.count < NativeChain::kMostFrames) {
        // Here the unwinder's CFA is the stack pointer after the return into this frame.
        walk.slots[walk.count] = static_cast<std::uint64_t>(_Unwind_GetCFA(context)) - sizeof(std::uint64_t);
    }
    walk.frames[walk.count++] = address;
    const bool goes_on = walk.count < walk.depth && can_step_out(context, walk.frame, walk.memory);
    return goes_on ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// Below the main thread's stack the kernel leaves a gap of at least this size (mmap_base in its sources).
constexpr std::uint64_t kMainStackBytes = 100UL << 20U;

void find_stack(ThreadState& thread) noexcept {
    const KeepErrno keep_errno;
    thread.stack_start = 0;
    thread.stack_end = 1;  // not known: nothing is within
    pthread_attr_t attributes;
    if (getpid() == static_cast<pid_t>(thread_handle.thread_id)) {
        thread.stack_end = reinterpret_cast<std::uint64_t>(__libc_stack_end);
        thread.stack_start = thread.stack_end - kMainStackBytes;
    } else if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void* start = nullptr;
        std::size_t bytes = 0;
        if (pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
            thread.stack_start = reinterpret_cast<std::uint64_t>(start);
            thread.stack_end = thread.stack_start + bytes;
        }
        pthread_attr_destroy(&attributes);
    }
}

// Whether a call came in on the thread's own stack. Between the stack pointer and that stack's end,
// memory is always there; of another stack (a signal's, a coroutine's) what was there may be gone.
bool is_on_own_stack(ThreadState& thread, std::uint64_t first_slot) noexcept {
    if (thread.stack_end == 0) {
        find_stack(thread);
    }
    const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    return here >= thread.stack_start && first_slot > here && first_slot < thread.stack_end;
}

__attribute__((no_sanitize("address"))) bool holds(std::uint64_t slot, std::uint64_t return_address) noexcept {
    return *reinterpret_cast<const std::uint64_t*>(slot) == return_address;
}

bool still_there(const NativeChain& chain) noexcept {
    for (std::uint32_t frame = 0; frame < chain.count; ++frame) {
        if (!holds(chain.slots[frame], chain.return_addresses[frame])) {
            return false;
        }
    }
    return true;
}

// Whether each return address lies where it was said to, further out each time, within the thread's stack.
bool can_be_remembered(const Walk& walk, std::uint64_t first_slot, std::uint64_t stack_end) noexcept {
    if (walk.count > NativeChain::kMostFrames || walk.slots[0] != first_slot) {
        return false;
    }
    std::uint64_t previous = first_slot - 1;
    for (std::uint32_t frame = 0; frame < walk.count; ++frame) {
        const std::uint64_t slot = walk.slots[frame];
        if (slot <= previous || slot + sizeof(slot) > stack_end || !holds(slot, walk.frames[frame])) {
            return false;
        }
        previous = slot;
    }
    return true;
}

}  // namespace

std::uint32_t take_native_stack(const RecordingScope& scope, std::uint32_t depth, const CallSite& site) noexcept {
    if (depth == 0) {
        return 0;
    }
    ThreadState* const thread = this_thread(*process_state);
    if (thread == nullptr) {
        return 0;
    }
    define_modules(scope);
    const auto first_slot = reinterpret_cast<std::uint64_t>(site.slot);
    const auto caller = reinterpret_cast<std::uint64_t>(site.return_address);
    const bool on_own_stack = is_on_own_stack(*thread, first_slot);
    const std::uint64_t hash = hash_word(first_slot, caller) | 1U;
    NativeChain& chain = thread->native_chains[(hash >> 8U) % kNativeChains];
    if (on_own_stack && chain.hash == hash && chain.depth == depth && chain.slots[0] == first_slot &&
        still_there(chain)) {
        return chain.stack_id;
    }
    chain.hash = 0;  // its slots are about to be overwritten
    Walk walk{thread->stack_scratch,
              chain.slots,
              0,
              std::min(depth, kMaximumStackDepth),
              caller,
              0,
              false,
              {},
              ReadableMemory(on_own_stack ? thread->stack_end : 0),
              {}};
    const std::uint64_t given_up = walks_given_up();
    unwind(visit, walk);
    const bool is_whole = given_up == walks_given_up();  // a fork can cut a stack short, which is not to be remembered
    if (walk.count == 0) {                               // called by code without tables
        walk.frames[0] = caller;
        walk.slots[0] = first_slot;
        walk.count = 1;
    }
    const std::uint32_t id = recorder::intern_native_stack(scope, walk.frames, walk.count);
    if (is_whole && on_own_stack && walk.count > 0 && can_be_remembered(walk, first_slot, thread->stack_end)) {
        std::copy(walk.frames, walk.frames + walk.count, chain.return_addresses);
        chain.count = walk.count;
        chain.depth = depth;
        chain.stack_id = id;
        chain.hash = hash;
    }
    return id;
}

}  // namespace msmemscope
