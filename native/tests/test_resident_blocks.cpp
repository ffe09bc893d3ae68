// How much of large blocks is in memory: asked of the kernel, and told of samples and of CPU tensors.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "core/observe/blocks.h"
#include "core/observe/host_sampling.h"
#include "core/observe/resident_blocks.h"
#include "core/writer/heap_pages.h"
#include "core/writer/recorder.h"
#include "core/writer/resident_pages.h"
#include "sources/host_heap/host_heap.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;
using format::EventKind;

namespace {

constexpr std::uint64_t kMiB = 1UL << 20U;
constexpr std::size_t kBytes = 64 * kMiB;

const auto hooked_mmap = tests::hooked(host_heap::kHooks, "mmap", &::mmap);
const auto hooked_munmap = tests::hooked(host_heap::kHooks, "munmap", &::munmap);

template <typename Map>
char* mapped(Map map) {
    void* const memory = map(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    madvise(memory, kBytes, MADV_NOHUGEPAGE);  // a page of 2 MiB would be touched as a whole
    return static_cast<char*>(memory);
}

std::uint64_t number_of(const void* memory) { return reinterpret_cast<std::uint64_t>(memory); }

void pages_are_counted() {
    char* const memory = mapped(::mmap);
    CHECK_EQUAL(resident_bytes(number_of(memory), kBytes, kAllPieces), 0U);
    std::memset(memory, 1, 10 * kMiB);
    CHECK_EQUAL(resident_bytes(number_of(memory), kBytes, kAllPieces), 10 * kMiB);
    // A part that begins and ends within pages counts these.
    CHECK_EQUAL(resident_bytes(number_of(memory) + 10 * kMiB - 100, 200, kAllPieces), 100U);
    CHECK_EQUAL(resident_bytes(number_of(memory) + 100, kMiB, kAllPieces), kMiB);
    // Four pieces of a mebibyte each, in the middle of four quarters.
    CHECK_EQUAL(resident_bytes(number_of(memory), kBytes, 4), 16 * kMiB);
    std::memset(memory, 1, kBytes);
    CHECK_EQUAL(resident_bytes(number_of(memory), kBytes, 4), kBytes);
    munmap(memory, kBytes);
    CHECK_EQUAL(resident_bytes(number_of(memory), kBytes, kAllPieces), kBytes);
    CHECK_EQUAL(resident_bytes(0, kBytes, kAllPieces), 0U);
}

}  // namespace

int main() {
    pages_are_counted();
    HeapPages* const heaps = static_cast<HeapPages*>(std::calloc(1, sizeof(HeapPages)));
    const std::uint64_t absent = heaps->absent_bytes(true);
    CHECK(absent < 1024 * kMiB);
    CHECK_EQUAL(heaps->absent_bytes(false), absent);
    std::free(heaps);
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("host=all\n").c_str()));
    recorder::begin_host_samples();
    mapped(hooked_mmap);  // behind it a log is worth it
    char* const gone = mapped(hooked_mmap);
    char* const kept = mapped(hooked_mmap);
    char* const full = mapped(hooked_mmap);
    char* const tensor = mapped(::mmap);
    recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, number_of(tensor), kBytes, {});
    std::memset(gone, 1, 24 * kMiB);  // the first piece of four, and half of the second one
    std::memset(kept, 1, 8 * kMiB);
    std::memset(full, 1, kBytes);
    std::memset(tensor, 1, 2 * kMiB);
    hooked_munmap(gone, kBytes);
    recorder::end_host_samples();
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    const auto ends = log.of(EventKind::kHostSampleFree);
    CHECK_EQUAL(ends.size(), 1U);
    CHECK_EQUAL(static_cast<std::uint64_t>(ends[0].size), 24 * kMiB);
    std::uint64_t told_of_kept = 0;
    std::uint64_t told_of_tensor = 0;
    for (const format::Record& record : log.of(EventKind::kHostResident)) {
        const auto size = static_cast<std::uint64_t>(record.size);
        CHECK(record.address != number_of(full) && record.extra != 0);
        told_of_kept = record.address == number_of(kept) ? size : told_of_kept;
        told_of_tensor = record.address == number_of(tensor) ? size : told_of_tensor;
    }
    CHECK_EQUAL(told_of_kept, 8 * kMiB);
    CHECK_EQUAL(told_of_tensor, 2 * kMiB);
    return 0;
}
