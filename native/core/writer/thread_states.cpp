// The life of the recorder's state: made once, wiped by fork, and a part of it per thread.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "core/writer/keep_errno.h"
#include "core/writer/library_list.h"
#include "core/writer/process_state.h"
#include "core/writer/wiped_memory.h"

namespace msmemscope {

__attribute__((tls_model("initial-exec"))) __thread ThreadHandle thread_handle;
ProcessState* process_state = nullptr;
std::atomic<std::uint32_t> collecting_across_fork{0};

namespace {

std::atomic<std::uint64_t> last_epoch{0};
pthread_key_t thread_end_key;

// Gives a thread's segments to whoever comes next. Runs when the thread ends; an event after that
// (other destructors allocate too) takes a state again, and this runs again.
void release_thread(void* memory) noexcept {
    auto* thread = static_cast<ThreadState*>(memory);
    ProcessState* state = process_state;
    if (state == nullptr || thread_handle.state != thread ||
        thread_handle.epoch != state->epoch.load(std::memory_order_acquire)) {
        return;
    }
    ++thread_handle.depth;
    const BoundedLockGuard guard(state->growth_lock);
    thread_handle.state = nullptr;
    if (guard) {
        thread->next_free = state->free_threads;
        state->free_threads = thread;
    }
    --thread_handle.depth;
}

bool initialise_state(ProcessState& state) noexcept {
    if (!state.strings.create() || !state.attributes.create() || !state.codes.create() ||
        !state.python_stacks.create() || !state.native_stacks.create()) {
        return false;
    }
    state.sequence.store(1, std::memory_order_relaxed);
    state.collecting.store(collecting_across_fork.load(std::memory_order_relaxed), std::memory_order_relaxed);
    state.epoch.store(last_epoch.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_release);
    return true;
}

void wipe_in_child() noexcept { std::memset(static_cast<void*>(process_state), 0, sizeof(ProcessState)); }

ThreadState* acquire_thread(ProcessState& state) noexcept {
    const BoundedLockGuard guard(state.growth_lock);
    if (!guard) {
        report_held_log(state);
        return nullptr;
    }
    ThreadState* thread = state.free_threads;
    if (thread != nullptr) {
        state.free_threads = thread->next_free;
    } else {
        thread = static_cast<ThreadState*>(map_wiped_memory(sizeof(ThreadState)));
        if (thread == nullptr) {
            return nullptr;
        }
        thread->number = state.thread_count++;
        thread->next_made = state.made_threads;
        state.made_threads = thread;
    }
    return thread;
}

// Two threads may come here in another order than they counted in: the header never goes back.
void show(const std::atomic<std::uint64_t>& counter, std::uint64_t& shown) noexcept {
    const std::uint64_t value = counter.load(std::memory_order_seq_cst);
    std::uint64_t before = __atomic_load_n(&shown, __ATOMIC_RELAXED);
    while (before < value &&
           !__atomic_compare_exchange_n(&shown, &before, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

// Another thread had the state before: its stack was elsewhere, and may be gone.
void forget_native_stacks(ThreadState& thread) noexcept {
    if (thread.stack_end == 0) {
        return;  // it took none; the pages stay untouched
    }
    thread.stack_end = 0;
    for (NativeChain& chain : thread.native_chains) {
        chain.hash = 0;
    }
}

}  // namespace

bool initialise_after_fork(ProcessState& state) noexcept {
    const KeepErrno keep_errno;
    const BoundedLockGuard guard(state.growth_lock);
    if (!guard) {
        return false;
    }
    if (state.epoch.load(std::memory_order_acquire) != 0) {
        return true;
    }
    state.is_forked.store(true, std::memory_order_relaxed);
    return initialise_state(state);
}

bool create_process_state() noexcept {
    auto* memory = static_cast<ProcessState*>(map_wiped_memory(sizeof(ProcessState)));
    if (memory == nullptr || pthread_key_create(&thread_end_key, release_thread) != 0) {
        return false;
    }
    // Where the kernel does not wipe, or only says so (emulators), libc's fork still tells us.
    if (pthread_atfork(nullptr, nullptr, wipe_in_child) != 0 || !keep_forks_out_of_walks()) {
        return false;
    }
    if (!initialise_state(*memory)) {
        return false;
    }
    process_state = memory;
    return true;
}

ThreadState* attach_thread(ProcessState& state) noexcept {
    const KeepErrno keep_errno;
    thread_handle.state = acquire_thread(state);
    thread_handle.epoch = state.epoch.load(std::memory_order_acquire);
    thread_handle.lease = NumberLease{};  // numbers of the parent are none of a forked child's
    thread_handle.thread_id = static_cast<std::uint32_t>(syscall(SYS_gettid));
    if (thread_handle.state != nullptr) {
        forget_native_stacks(*thread_handle.state);
        pthread_setspecific(thread_end_key, thread_handle.state);
    }
    return thread_handle.state;
}

void count(std::atomic<std::uint64_t>& counter, std::uint64_t format::ProcessHeader::* mirror) noexcept {
    // Either this sees that the header is there, or show_counted() sees the count of this.
    counter.fetch_add(1, std::memory_order_seq_cst);
    ProcessState& state = *process_state;
    if (state.phase.load(std::memory_order_seq_cst) == CapturePhase::kOpen) {
        show(counter, state.header->*mirror);
    }
}

void show_counted(ProcessState& state) noexcept {
    show(state.dropped.reentrant, state.header->dropped_reentrant);
    show(state.dropped.failure, state.header->dropped_failure);
    show(state.dropped.recycled, state.header->dropped_recycled);
    show(state.dropped.lost_definitions, state.header->lost_definitions);
    show(state.dropped.untracked_blocks, state.header->untracked_blocks);
}

}  // namespace msmemscope
