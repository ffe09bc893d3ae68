// Samples of host memory: right on average, withdrawn when their blocks are freed, and no harm in threads, forks and
// calls from within.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "core/observe/host_sampling.h"
#include "core/writer/recorder.h"
#include "sources/host_heap/host_heap.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;
using format::EventKind;

namespace {

constexpr std::size_t kMiB = 1UL << 20U;

// Memory that nobody has: addresses alone, so that hundreds of gigabytes are allocated in no time.
std::atomic<std::uint64_t> next_address{1UL << 40U};

void* imagine(std::size_t bytes) {
    return reinterpret_cast<void*>(next_address.fetch_add((bytes + 15) & ~std::size_t{15}, std::memory_order_relaxed));
}
void forget(void* memory) { static_cast<void>(memory); }

bool realloc_fails = false;
void* imagine_again(void* memory, std::size_t bytes) {
    return realloc_fails ? nullptr : bytes <= kMiB ? memory : imagine(bytes);
}

const auto hooked_malloc = tests::hooked(host_heap::kHooks, "malloc", &imagine);
const auto hooked_release = tests::hooked(host_heap::kHooks, "free", &forget);
const auto hooked_realloc = tests::hooked(host_heap::kHooks, "realloc", &imagine_again);
const auto hooked_mmap = tests::hooked(host_heap::kHooks, "mmap", &::mmap);
const auto hooked_munmap = tests::hooked(host_heap::kHooks, "munmap", &::munmap);

// A thread gets the number that another one left, or a new one.
pthread_t left_number = 0;
int imagine_thread(pthread_t* thread, const pthread_attr_t*, void* (*)(void*), void*) {
    *thread = left_number != 0 ? left_number : reinterpret_cast<pthread_t>(imagine(64));
    return 0;
}
int imagine_end(pthread_t, void**) { return 0; }

const auto hooked_create = tests::hooked(host_heap::kHooks, "pthread_create", &imagine_thread);
const auto hooked_join = tests::hooked(host_heap::kHooks, "pthread_join", &imagine_end);

std::string settings_of(const ScratchFolder& folder) { return folder.settings("host=sampled\n"); }

// Samples that are alive, by the numbers of their records; every end has a beginning.
std::map<std::uint64_t, format::Record> live_samples(const tests::Log& log) {
    std::map<std::uint64_t, format::Record> live;
    for (const format::Record& record : log.of(EventKind::kHostSample)) {
        live.emplace(record.sequence, record);
    }
    for (const format::Record& record : log.of(EventKind::kHostSampleFree)) {
        CHECK_EQUAL(live.erase(record.extra), 1U);
    }
    return live;
}

// A block of 1 GiB is always sampled.
void* allocate_a_sample() { return hooked_malloc(1024 * kMiB); }

void sums_are_right_whatever_the_sizes() {
    constexpr std::uint64_t kBytes = 256UL << 30U;
    for (const std::size_t size : {4096UL, 100'000UL, 1UL << 20U, 24UL << 20U}) {
        for (std::uint64_t total = 0; total < kBytes; total += size) {
            hooked_release(hooked_malloc(size));
        }
    }
}

void check_sums(const tests::Log& log) {
    std::map<std::int64_t, double> sums;
    for (const format::Record& record : log.of(EventKind::kHostSample)) {
        sums[record.size] += static_cast<double>(record.extra);
    }
    for (const std::int64_t size : {4096L, 100'000L, 1L << 20U, 24L << 20U}) {
        const double share = sums[size] / static_cast<double>(256UL << 30U);
        if (share < 0.95 || share > 1.05) {
            std::fprintf(stderr, "blocks of %lld bytes: %.3f of what was allocated\n", static_cast<long long>(size),
                         share);
            std::exit(1);
        }
    }
}

constexpr std::int64_t kBurstBlockBytes = 50'000;

// After a pause: the pace of what came before is forgotten, with the first sample.
void a_burst() {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    hooked_release(allocate_a_sample());
    for (std::size_t total = 0; total < 48 * kMiB; total += kBurstBlockBytes) {
        hooked_release(hooked_malloc(kBurstBlockBytes));
    }
}

// With a mean of 512 KiB a block stands for 550,000 bytes.
void check_burst(const tests::Log& log) {
    std::vector<std::uint64_t> estimates;
    for (const format::Record& record : log.of(EventKind::kHostSample)) {
        if (record.size == kBurstBlockBytes) {
            estimates.push_back(record.extra);
        }
    }
    CHECK(estimates.size() > 40);
    for (const std::uint64_t estimate : estimates) {
        CHECK(estimate < 600'000);
    }
}

// The log began with a later sample: the figure from before comes first, and once.
void check_begin(const tests::Log& log) {
    const std::vector<format::Record> figures = log.of(EventKind::kHostMemory);
    CHECK(figures.size() > 1);
    std::size_t begins = 0;
    for (const format::Record& figure : figures) {
        begins += tests::attributes_of(log, figure.attribute_id).find("55=begin") != std::string::npos ? 1 : 0;
        CHECK(figures.front().timestamp_ns <= figure.timestamp_ns);
        CHECK(figures.front().sequence <= figure.sequence);
    }
    CHECK_EQUAL(begins, 1U);
    CHECK(tests::attributes_of(log, figures.front().attribute_id).find("55=begin") != std::string::npos);
}

void moved_blocks() {
    void* const first = allocate_a_sample();
    realloc_fails = true;
    CHECK(hooked_realloc(first, 2048 * kMiB) == nullptr);  // lives on
    realloc_fails = false;
    void* const second = hooked_realloc(first, 2048 * kMiB);
    CHECK(second != first);
    CHECK(hooked_realloc(second, 16) == second);  // too small to be a sample again
}

void calls_from_within() {
    const std::size_t before = next_address.load();
    {
        const RecordingScope scope(true);
        CHECK(scope);
        allocate_a_sample();
    }
    CHECK(next_address.load() > before);
}

void threads_come_and_go(std::vector<void*>& kept) {
    std::atomic<std::size_t> place{0};
    kept.resize(64);
    for (int generation = 0; generation < 4; ++generation) {
        std::vector<std::thread> threads;
        for (int number = 0; number < 64; ++number) {
            threads.emplace_back([&, generation] {
                for (int round = 0; round < 50; ++round) {
                    hooked_release(hooked_malloc(3 * kMiB));
                }
                void* const sample = allocate_a_sample();
                if (generation == 3) {
                    kept[place.fetch_add(1)] = sample;
                } else {
                    hooked_release(sample);
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
}

void mappings(void*& kept) {
    const auto map = [](int protection, int flags) {
        return hooked_mmap(nullptr, 256 * kMiB, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    };
    hooked_munmap(map(PROT_READ | PROT_WRITE, 0), 256 * kMiB);
    kept = map(PROT_READ | PROT_WRITE, 0);
    map(PROT_NONE, 0);
    map(PROT_READ | PROT_WRITE, MAP_NORESERVE);
    map(PROT_READ | PROT_WRITE, MAP_STACK);
}

// Each is 32 KiB; those that were joined are gone, and so is one whose place another one has.
void threads_are_memory() {
    constexpr std::size_t kThreads = 5;
    pthread_t threads[kThreads];
    for (pthread_t& thread : threads) {
        CHECK_EQUAL(hooked_create(&thread, nullptr, nullptr, nullptr), 0);
    }
    left_number = threads[0];
    hooked_create(&threads[0], nullptr, nullptr, nullptr);
    left_number = 0;
    CHECK_EQUAL(hooked_join(threads[1], nullptr), 0);
    for (std::size_t thread : {0UL, 2UL, 3UL, 4UL}) {
        CHECK_EQUAL(hooked_join(threads[thread], nullptr), 0);
    }
}

void a_child_is_on_its_own(const ScratchFolder& folder, void* inherited) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        hooked_release(inherited);  // no sample of this process
        std::vector<void*> own;
        for (int number = 0; number < 5; ++number) {
            own.push_back(allocate_a_sample());
        }
        hooked_release(own[4]);
        recorder::close();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    const tests::Log log = tests::read_log(folder.path(), child);
    // The first one showed that a log is worth it.
    CHECK_EQUAL(live_samples(log).size(), 3U);
    CHECK_EQUAL(log.of(EventKind::kHostSampleFree).size(), 1U);
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(settings_of(folder).c_str()));
    allocate_a_sample();  // nobody has begun
    recorder::begin_host_samples();
    hooked_release(allocate_a_sample());
    CHECK_EQUAL(tests::count_captures(folder.path()), 0U);
    hooked_release(allocate_a_sample());  // what is gone is not worth a log
    CHECK_EQUAL(tests::count_captures(folder.path()), 0U);
    void* const unrecorded = allocate_a_sample();
    void* const first = allocate_a_sample();
    CHECK_EQUAL(tests::count_captures(folder.path()), 1U);
    hooked_release(unrecorded);

    std::set<std::uint64_t> alive{reinterpret_cast<std::uint64_t>(first)};
    sums_are_right_whatever_the_sizes();
    a_burst();
    moved_blocks();
    calls_from_within();
    threads_are_memory();
    std::vector<void*> kept;
    threads_come_and_go(kept);
    for (void* const memory : kept) {
        alive.insert(reinterpret_cast<std::uint64_t>(memory));
    }
    void* mapped = nullptr;
    mappings(mapped);
    alive.insert(reinterpret_cast<std::uint64_t>(mapped));
    a_child_is_on_its_own(folder, first);
    recorder::end_host_samples();
    hooked_release(first);  // as the program ends
    allocate_a_sample();
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    check_sums(log);
    check_burst(log);
    std::size_t threads = 0;
    for (const format::Record& record : log.of(EventKind::kHostSample)) {
        threads += record.size == 32L << 10U && record.extra == 32UL << 10U ? 1 : 0;
    }
    CHECK_EQUAL(threads, 6U);
    std::set<std::uint64_t> found;
    for (const auto& [number, record] : live_samples(log)) {
        found.insert(record.address);
    }
    CHECK_EQUAL(found.size(), alive.size());
    CHECK(found == alive);
    CHECK_EQUAL(log.header.dropped_reentrant, 0U);
    check_begin(log);
    return 0;
}
