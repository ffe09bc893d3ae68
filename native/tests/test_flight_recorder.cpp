// --max-size: the log stays under its cap, blocks that are alive keep their MALLOC, and what was
// dropped is counted.
#include <unistd.h>

#include <unordered_map>
#include <vector>

#include "core/writer/recorder.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

constexpr std::uint64_t kCap = 1UL << 20U;
constexpr int kRounds = 300000;

void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    CHECK(tests::hooked_posix_memalign(&memory, 64, bytes) == 0);
    return memory;
}

}  // namespace

int main() {
    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("maximum_size=" + std::to_string(kCap) + "\n").c_str()));
    std::vector<void*> alive;
    std::vector<void*> freed_late;
    for (int index = 0; index < 100; ++index) {
        alive.push_back(allocate(10000 + static_cast<std::size_t>(index)));
        freed_late.push_back(allocate(20000 + static_cast<std::size_t>(index)));
    }
    for (int round = 0; round < kRounds; ++round) {
        tests::hooked_free(allocate(64));
        if (round == kRounds / 3) {
            for (void* memory : freed_late) {  // kept by then; their FREE is recycled long before the end
                tests::hooked_free(memory);
            }
        }
    }
    recorder::close();
    CHECK(tests::allocated_bytes(folder.path(), getpid()) <= kCap + (256UL << 10U));

    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK(log.header.log_bytes <= kCap);
    CHECK(log.header.dropped_recycled > kRounds);
    CHECK_EQUAL(log.header.dropped_recycled + log.records.size() + log.kept.size() + 100, 2U * kRounds + 300U);
    CHECK_EQUAL(log.kept.size(), 100U);
    std::unordered_map<std::int64_t, int> sizes;
    for (const format::Record& record : log.kept) {
        CHECK(record.kind == format::EventKind::kMalloc);
        ++sizes[record.size];
    }
    for (int index = 0; index < 100; ++index) {
        CHECK_EQUAL(sizes[10000 + index], 1);
    }
    // The end of the run remains, without holes.
    const std::uint64_t last = log.records.back().sequence;
    CHECK_EQUAL(last, recorder::next_sequence() - 1);
    CHECK_EQUAL(last - log.records.front().sequence + 1, log.records.size());
    for (void* memory : alive) {
        tests::hooked_free(memory);
    }
    return 0;
}
