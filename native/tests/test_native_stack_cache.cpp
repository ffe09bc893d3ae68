// A remembered native stack is taken for another one only if it is the same. The cache tells these apart: other
// callers, other depths, frames of varying size, other threads and other stacks. It reads no memory that is gone.
#include <alloca.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

// The size tells which way an allocation came.
__attribute__((noinline)) void allocate(std::size_t bytes) {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, bytes) == 0);
    tests::hooked_free(memory);
    asm volatile("");
}

// Two callers with frames of the same size, so that the innermost return address lies in the same place.
__attribute__((noinline)) void first_caller() {
    allocate(1001);
    asm volatile("");
}
__attribute__((noinline)) void second_caller() {
    allocate(1002);
    asm volatile("");
}

__attribute__((noinline)) void from_varying_frame(std::size_t bytes) {
    volatile char* const space = static_cast<volatile char*>(alloca(bytes));
    space[0] = 1;
    allocate(1003);
    asm volatile("");
}

__attribute__((noinline)) void recurse(int depth, std::size_t bytes) {
    if (depth == 0) {
        allocate(bytes);
    } else {
        recurse(depth - 1, bytes);
    }
    asm volatile("");
}

ucontext_t main_context;
ucontext_t other_context;

void on_other_stack() {
    recurse(3, 1004);
    recurse(3, 1004);
}

// A stack that is unmapped, and a smaller one at the same place: what lay above must not be looked at.
void run_on_stack(char* top, std::size_t bytes) {
    CHECK(mmap(top - bytes, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          top - bytes);
    CHECK(getcontext(&other_context) == 0);
    other_context.uc_stack.ss_sp = top - bytes;
    other_context.uc_stack.ss_size = bytes;
    other_context.uc_link = &main_context;
    makecontext(&other_context, on_other_stack, 0);
    CHECK(swapcontext(&main_context, &other_context) == 0);
    CHECK(munmap(top - bytes, bytes) == 0);
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("native_stack_depth=60\n").c_str()));
    for (volatile int round = 0; round < 50; round = round + 1) {
        first_caller();
        second_caller();
        from_varying_frame(16 + static_cast<std::size_t>(round % 5) * 48);
        recurse(round % 7, 2000 + static_cast<std::size_t>(round) % 7);
    }
    // Frames below which a whole stack of another thread is reused.
    for (volatile int round = 0; round < 20; round = round + 1) {
        std::thread([] { recurse(4, 3000); }).join();
    }
    constexpr std::size_t kPlace = 1UL << 20U;
    char* const place = static_cast<char*>(mmap(nullptr, kPlace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(place != MAP_FAILED);
    for (const std::size_t bytes : {262144UL, 131072UL, 262144UL}) {
        run_on_stack(place + kPlace, bytes);
        run_on_stack(place + kPlace - 131072, 131072);
    }
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    std::map<std::uint32_t, std::vector<std::uint64_t>> stacks;
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kNativeStack) {
            std::vector<std::uint64_t> frames(definition.payload.size() / sizeof(std::uint64_t));
            std::memcpy(frames.data(), definition.payload.data(), definition.payload.size());
            stacks[definition.header.id] = frames;
        }
    }
    // One way, one stack: all allocations of a size have the same id, and no two sizes share one.
    std::map<std::int64_t, std::uint32_t> ids;
    std::map<std::uint32_t, std::int64_t> sizes;
    for (const format::Record& record : log.of(format::EventKind::kMalloc)) {
        CHECK(record.native_stack_id != 0);
        CHECK(stacks.count(record.native_stack_id) == 1);
        if (record.size == 1004) {
            continue;  // on a coroutine's stack the second call has another return address
        }
        CHECK_EQUAL(ids.emplace(record.size, record.native_stack_id).first->second, record.native_stack_id);
        CHECK_EQUAL(sizes.emplace(record.native_stack_id, record.size).first->second, record.size);
    }
    CHECK_EQUAL(ids.size(), 11U);
    CHECK(stacks[ids[1001]][1] != stacks[ids[1002]][1]);
    for (int depth = 1; depth < 7; ++depth) {
        CHECK_EQUAL(stacks[ids[2000 + depth]].size(), stacks[ids[2000]].size() + static_cast<std::size_t>(depth));
    }
    return 0;
}
