// A function of a loaded library is found by all threads that ask for it, also by those that ask at the same time.
#include <atomic>
#include <thread>
#include <vector>

#include "sources/loaded_function.h"
#include "tests/check.h"

using namespace msmemscope;

namespace {

using Absolute = int(int);

void threads_that_ask_at_the_same_time() {
    constexpr int kThreads = 8;
    constexpr int kRounds = 200;
    std::atomic<int> missed{0};
    for (int round = 0; round < kRounds; ++round) {
        LoadedFunction<Absolute> absolute("abs");
        std::atomic<int> waiting{kThreads};
        std::vector<std::thread> threads;
        threads.reserve(kThreads);
        for (int number = 0; number < kThreads; ++number) {
            threads.emplace_back([&] {
                for (--waiting; waiting.load() > 0;) {
                    std::this_thread::yield();
                }
                const auto function = absolute.get();
                missed += function == nullptr || function(-7) != 7 ? 1 : 0;
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    CHECK_EQUAL(missed.load(), 0);
}

void names_in_their_order() {
    LoadedFunction<Absolute, 2> second("no_function_has_this_name", "abs");
    const auto function = second.get();
    CHECK(function != nullptr && function(-3) == 3);
    LoadedFunction<Absolute, 2> first("abs", "labs");
    CHECK(first.get() == function);
}

void none_that_is_there() {
    LoadedFunction<Absolute> missing("no_function_has_this_name");
    for (int call = 0; call < 100; ++call) {
        CHECK(missing.get() == nullptr);
    }
}

}  // namespace

int main() {
    threads_that_ask_at_the_same_time();
    names_in_their_order();
    none_that_is_there();
    return 0;
}
