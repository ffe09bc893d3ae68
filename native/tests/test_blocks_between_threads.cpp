// Fast threads free each other's blocks and are given each other's addresses. At each address the order of the numbers
// is the order in which things happened. Nothing is lost.
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

enum class Place : int { kFree, kBusy, kAlive };

constexpr std::size_t kPlaces = 24;
constexpr int kThreads = 4;
constexpr int kActions = 150000;
constexpr std::uint64_t kAlone = 2000;

std::atomic<Place> places[kPlaces];

std::uint64_t address_of(std::size_t place) { return 0x10000 + 64 * place; }

bool take(std::size_t place, Place from) {
    return places[place].load(std::memory_order_relaxed) == from &&
           places[place].compare_exchange_strong(from, Place::kBusy, std::memory_order_acquire);
}

void act(unsigned seed) {
    std::mt19937 random(seed);
    for (int done = 0; done < kActions;) {
        const std::size_t place = random() % kPlaces;
        if (take(place, Place::kFree)) {
            recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, address_of(place), 64,
                                         MSMEMSCOPE_CALL_SITE());
            places[place].store(Place::kAlive, std::memory_order_release);
            ++done;
        } else if (take(place, Place::kAlive)) {
            recorder::observe_free(format::Pool::kHost, address_of(place), MSMEMSCOPE_CALL_SITE());
            places[place].store(Place::kFree, std::memory_order_release);
            ++done;
        }
    }
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("events=alloc,free\n").c_str()));
    for (std::uint64_t number = 0; number < kAlone / 2; ++number) {
        recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, address_of(number % 7), 64,
                                     MSMEMSCOPE_CALL_SITE());
        recorder::observe_free(format::Pool::kHost, address_of(number % 7), MSMEMSCOPE_CALL_SITE());
    }
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back(act, thread + 1);
    }
    for (auto& thread : threads) {
        thread.join();
    }
    recorder::close();
    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK_EQUAL(log.records.size(), kAlone + std::size_t{kThreads} * kActions);
    for (std::uint64_t number = 0; number < kAlone; ++number) {
        CHECK_EQUAL(log.records[number].sequence, number + 1);
    }
    std::map<std::uint64_t, std::uint64_t> alive;  // address to the number of its MALLOC
    for (const format::Record& record : log.records) {
        if (record.kind == format::EventKind::kMalloc) {
            CHECK(alive.emplace(record.address, record.sequence).second);
        } else {
            CHECK(record.kind == format::EventKind::kFree);
            CHECK(alive.count(record.address) == 1);
            CHECK_EQUAL(alive[record.address], record.extra);
            alive.erase(record.address);
        }
    }
    return 0;
}
