// The stacks of threads: what is in memory of them is told, once it has grown, for as long as they are in the table.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "core/writer/thread_stacks.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

constexpr std::uint64_t kKiB = 1UL << 10U;
constexpr std::uint64_t kStackBytes = 2048 * kKiB;
constexpr std::size_t kTouched = 600 * kKiB;

// A thread that waits, has touched so much of its stack, and touches more when it is told to.
struct Waiting {
    std::atomic<int> stage{0};
    pthread_t thread{};

    // Frames as they are, without what a sanitizer puts between them.
    __attribute__((no_sanitize("address", "thread", "undefined"))) static void touch(Waiting& self, std::size_t depth) {
        volatile char frame[4 * kKiB];
        frame[0] = 1;
        if (depth > sizeof(frame)) {
            touch(self, depth - sizeof(frame));
        } else {
            self.stage.store(1);
            while (self.stage.load() != 2) {
                usleep(100);
            }
        }
        frame[1] = frame[0];  // no tail call
    }

    static void* run(void* argument) {
        touch(*static_cast<Waiting*>(argument), kTouched);
        return nullptr;
    }

    void begin() {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, kStackBytes);
        CHECK_EQUAL(pthread_create(&thread, &attributes, run, this), 0);
        pthread_attr_destroy(&attributes);
        while (stage.load() != 1) {
            usleep(100);
        }
    }

    void end() {
        stage.store(2);
        pthread_join(thread, nullptr);
    }

    std::uint64_t place() const { return static_cast<std::uint64_t>(thread); }
};

std::vector<std::pair<std::uint64_t, std::uint64_t>> measured(ThreadStacks& stacks, std::size_t most) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    stacks.measure(most, [&found](const ThreadStack& stack, std::uint64_t bytes) {
        CHECK_EQUAL(stack.origin.python_stack_id, 7U);
        found.emplace_back(stack.place, bytes);
        return true;
    });
    return found;
}

}  // namespace

int main() {
    const auto stacks = std::make_unique<ThreadStacks>();
    CHECK(measured(*stacks, 10).empty());

    // Neighbours in memory: none of them has a part of another.
    std::vector<Waiting> threads(8);
    for (Waiting& one : threads) {
        one.begin();
        stacks->add(one.place(), kStackBytes, 32 * kKiB, {1, 7, 3});
    }
    // A place where nothing is mapped, as that of a thread that has ended.
    stacks->add(kKiB * kKiB * kKiB * 3, kStackBytes, 32 * kKiB, {1, 7, 3});

    // In turn: none twice before all were looked at.
    auto found = measured(*stacks, 5);
    CHECK_EQUAL(found.size() >= 4, true);
    const auto others = measured(*stacks, 4);
    found.insert(found.end(), others.begin(), others.end());
    CHECK_EQUAL(found.size(), threads.size());
    // The variables of all libraries lie there, too: they are the same in each.
    std::uint64_t least = kStackBytes;
    for (const auto& [place, bytes] : found) {
        least = std::min(least, bytes);
    }
    CHECK(least >= kTouched);
    for (const auto& [place, bytes] : found) {
        CHECK(bytes <= least + 100 * kKiB);
    }
    // Known bytes are not told again.
    CHECK(measured(*stacks, ThreadStacks::kMost).empty());

    for (Waiting& one : threads) {
        stacks->remove(one.place());
        one.end();
    }
    CHECK(measured(*stacks, ThreadStacks::kMost).empty());

    // One more than there is room for stays out, and each that goes makes room again.
    for (std::uint64_t number = 0; number < ThreadStacks::kMost + 1; ++number) {
        stacks->add((number + 2) << 16U, 0, 0, {});
    }
    stacks->remove(2UL << 16U);
    Waiting late;
    late.begin();
    stacks->add(late.place(), kStackBytes, 32 * kKiB, {1, 7, 3});
    CHECK_EQUAL(measured(*stacks, ThreadStacks::kMost).size(), 1U);
    late.end();
    return 0;
}
