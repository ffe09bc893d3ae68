// Pools, marks and ranges, told as each producer tells them: with the fields filled that it fills, and garbage
// elsewhere.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/writer/recorder.h"
#include "core/writer/steps.h"
#include "sources/ascend/mstx/mstx.h"
#include "tests/check.h"
#include "tests/log_reader.h"

using namespace msmemscope;
using namespace msmemscope::mstx;

namespace {

// A library that contains mstx: its function pointers, and as many modules and functions as its version has.
struct Image {
    Function core[5] = {};
    Function domain[6] = {};
    Function memory[6] = {};

    void (*mark)(const char*, void*) = nullptr;
    std::uint64_t (*range_start)(const char*, void*) = nullptr;
    void (*range_end)(std::uint64_t) = nullptr;
    void (*tool_id)(std::uint64_t*) = nullptr;
    void* (*create)(const char*) = nullptr;
    void* (*heap)(void*, const HeapDescription*) = nullptr;
    void (*heap_end)(void*, void*) = nullptr;
    void (*regions)(void*, const RegionsRegisterBatch*) = nullptr;
    void (*regions_end)(void*, const RegionsUnregisterBatch*) = nullptr;
};

Image* asking = nullptr;
unsigned modules_of_asking = 3;
unsigned core_size = 5;

int get_table(int module, FunctionTable* table, unsigned* size) {
    static Function* core[6];
    static Function* domain[7];
    static Function* memory[7];
    if (table == nullptr || size == nullptr || module < 1 || static_cast<unsigned>(module) > modules_of_asking) {
        return 1;
    }
    for (unsigned index = 1; index < 6; ++index) {
        if (index < core_size) {
            core[index] = &asking->core[index];
        }
        domain[index] = &asking->domain[index];
        memory[index] = &asking->memory[index];
    }
    *table = module == kCore ? core : module == kDomain ? domain : memory;
    *size = module == kCore ? core_size : 6;
    return 0;
}

template <typename Target>
void fetch(Target& target, Function function) {
    target = reinterpret_cast<Target>(function);
}

void inject(Image& image) {
    asking = &image;
    CHECK_EQUAL(InitInjectionMstx(&get_table), 0);
    fetch(image.mark, image.core[kMark]);
    fetch(image.range_start, image.core[kRangeStart]);
    fetch(image.range_end, image.core[kRangeEnd]);
    fetch(image.tool_id, image.core[kGetToolId]);
    fetch(image.create, image.domain[kDomainCreate]);
    fetch(image.heap, image.memory[kHeapRegister]);
    fetch(image.heap_end, image.memory[kHeapUnregister]);
    fetch(image.regions, image.memory[kRegionsRegister]);
    fetch(image.regions_end, image.memory[kRegionsUnregister]);
}

void* at(std::uint64_t address) { return reinterpret_cast<void*>(address); }

// The value of an uninitialised field.
constexpr std::int32_t kGarbage = -0x21524111;
void* const garbage = at(0xdeadbeef00000001);

void* report_heap(const Image& image, const char* domain, std::uint64_t address, std::uint64_t size,
                  unsigned device = 0) {
    const VirtualRange range{device, at(address), size};
    const HeapDescription description{kGarbage, kGarbage, &range};
    return image.heap(image.create(domain), &description);
}

void report_block(const Image& image, const char* domain, std::uint64_t address, std::uint64_t size,
                  unsigned device = 0) {
    const VirtualRange range{device, at(address), size};
    const RegionsRegisterBatch batch{garbage, kGarbage, 1, &range, static_cast<void**>(garbage)};
    image.regions(image.create(domain), &batch);
}

void report_end(const Image& image, const char* domain, std::uint64_t address) {
    const RegionReference reference{kGarbage, at(address)};
    const RegionsUnregisterBatch batch{1, &reference};
    image.regions_end(image.create(domain), &batch);
}

// Live bytes and reserved bytes of a pool, as a reader of the log has them after each record.
struct Totals {
    std::int64_t live = 0;
    std::int64_t reserved = 0;
};

using Records = std::vector<format::Record>;

Records of_pool(const tests::Log& log, format::Pool pool) {
    Records found;
    for (const format::Record& record : log.records) {
        if (record.pool == pool) {
            found.push_back(record);
        }
    }
    return found;
}

Totals totals_of(const Records& records, int device) {
    Totals totals;
    for (const format::Record& record : records) {
        if (format::device_of(record) != device) {
            continue;
        }
        if (record.kind == format::EventKind::kReserved) {
            totals.reserved = record.size;
        } else {
            totals.live += record.kind == format::EventKind::kMalloc ? record.size : -record.size;
        }
    }
    return totals;
}

std::size_t count_of(const Records& records, format::EventKind kind) {
    std::size_t count = 0;
    for (const format::Record& record : records) {
        count += record.kind == kind ? 1 : 0;
    }
    return count;
}

void report_caching(const Image& image) {
    // Each call asks for the domain again.
    CHECK(image.create("ptaCaching") != nullptr && image.create("ptaCaching") == image.create("msleaks"));
    CHECK(image.create("test") == nullptr && image.create("communication") == nullptr && image.create("") == nullptr);
    CHECK(image.create(nullptr) == nullptr);
    CHECK(report_heap(image, "ptaCaching", 0x10000, 2097152) == nullptr);
    report_block(image, "ptaCaching", 0x10000, 512);
    for (std::uint64_t index = 1; index < 100; ++index) {
        report_heap(image, "ptaCaching", 0x10000 + index * 512, 2097152);  // the total has not changed
        report_block(image, "msleaks", 0x10000 + index * 512, 512);
    }
    report_end(image, "ptaCaching", 0x10000);
    report_end(image, "ptaCaching", 0x10000);          // again
    report_end(image, "ptaCaching", 0x7777);           // never heard of
    report_block(image, "ptaCaching", 0x10200, 1024);  // its end was not told
    report_heap(image, "ptaCaching", 0x10000, 4194304);
    report_heap(image, "ptaCaching", 0x90000, 20971520, 3);
    report_block(image, "ptaCaching", 0x90000, 4096, 3);
    // Nonsense is passed over.
    image.heap(image.create("ptaCaching"), nullptr);
    image.heap(garbage, nullptr);
    image.heap_end(image.create("ptaCaching"), nullptr);
    image.regions(nullptr, nullptr);
    image.regions_end(image.create("ptaCaching"), nullptr);
    report_heap(image, "ptaCaching", 0x1, 1, 4000000000U);
    report_block(image, "ptaCaching", 0x1, 1, 200);
}

void check_caching(const tests::Log& log) {
    const Records records = of_pool(log, format::Pool::kPta);
    const Totals first = totals_of(records, 0);
    CHECK_EQUAL(first.live, 98 * 512 + 1024);
    CHECK_EQUAL(first.reserved, 4194304);
    const Totals other = totals_of(records, 3);
    CHECK_EQUAL(other.live, 4096);
    CHECK_EQUAL(other.reserved, 20971520);
    CHECK_EQUAL(count_of(records, format::EventKind::kReserved), 3U);
    CHECK_EQUAL(count_of(records, format::EventKind::kFree), 2U);
    CHECK(records[0].kind == format::EventKind::kReserved);
    for (const format::Record& record : records) {
        if (record.kind == format::EventKind::kFree && record.address == 0x10200) {
            CHECK_EQUAL(record.flags, format::kFlagShadow);
            CHECK_EQUAL(record.size, 512);
        }
    }
}

void report_workspace(const Image& image) {
    // Two streams: the size told is the sum of all that is in use.
    report_heap(image, "ptaWorkspace", 0x200000, 18874368);
    report_block(image, "ptaWorkspace", 0x200000, 18874368);
    report_heap(image, "ptaWorkspace", 0x400000, 20971520);
    report_block(image, "ptaWorkspace", 0x400000, 20971520);
    report_end(image, "ptaWorkspace", 0x200000);
    report_end(image, "ptaWorkspace", 0x400000);
    report_heap(image, "ptaWorkspace", 0x200000, 2097152);
    report_heap(image, "ptaWorkspace", 0x400000, 0);
}

void check_workspace(const tests::Log& log) {
    const Records records = of_pool(log, format::Pool::kPtaWorkspace);
    CHECK_EQUAL(records.size(), 8U);
    CHECK_EQUAL(records[1].size, 18874368);
    CHECK_EQUAL(records[3].size, 2097152);
    CHECK_EQUAL(totals_of(records, 0).live, 0);
    CHECK_EQUAL(totals_of(records, 0).reserved, 0);
    CHECK_EQUAL(totals_of(Records(records.begin(), records.begin() + 4), 0).live, 20971520);
}

void report_mindspore(const Image& image) {
    void* const domain = image.create("mindsporeMemPool");
    CHECK(domain != nullptr && domain == image.create("mindsporeMemPool"));
    // One batch of many regions; the total comes behind the blocks.
    std::vector<VirtualRange> ranges;
    std::vector<RegionReference> references;
    for (std::uint64_t index = 0; index < 50; ++index) {
        ranges.push_back({1, at(0x500000 + index * 4096), 4096});
        references.push_back({kGarbage, at(0x500000 + index * 4096)});
    }
    const RegionsRegisterBatch batch{garbage, kGarbage, ranges.size(), ranges.data(), static_cast<void**>(garbage)};
    image.regions(domain, &batch);
    report_heap(image, "mindsporeMemPool", 0x500000, 1 << 30, 1);
    const RegionsUnregisterBatch ends{references.size() - 1, references.data()};
    image.regions_end(domain, &ends);
    report_heap(image, "mindsporeMemPool", 0x500000, 1 << 30, 1);
}

void check_mindspore(const tests::Log& log) {
    const Records records = of_pool(log, format::Pool::kMindSpore);
    CHECK_EQUAL(count_of(records, format::EventKind::kMalloc), 50U);
    CHECK_EQUAL(count_of(records, format::EventKind::kReserved), 1U);
    CHECK_EQUAL(totals_of(records, 1).live, 4096);
    CHECK_EQUAL(totals_of(records, 1).reserved, 1 << 30);
    for (const format::Record& record : records) {
        CHECK(record.kind != format::EventKind::kMalloc || record.native_stack_id != 0);  // each has its stack
    }
}

void report_atb(const Image& image) {
    void* const domain = image.create("atb");
    CHECK(domain != nullptr && domain == image.create("atb"));
    void* handles[3] = {garbage, garbage, garbage};
    const VirtualRange ranges[] = {{2, at(0x800000), 4096}, {2, at(0x801000), 1024}, {2, at(0x801000), 0}};
    const RegionsRegisterBatch batch{nullptr, 0, 3, ranges, handles};
    image.regions(domain, &batch);  // without a heap there are no regions, and handles all the same
    for (void* handle : handles) {
        CHECK(handle != nullptr && handle != garbage);
    }
    CHECK(report_heap(image, "atb", 0x800000, 1 << 20, 2) == at(0x800000));
    CHECK(report_heap(image, "atb", 0x900000, 1 << 20, 2) == at(0x900000));
    CHECK(report_heap(image, "atb", 0, 0, 2) != nullptr);
    image.regions(domain, &batch);
    CHECK(handles[0] != handles[1] && handles[1] != handles[2]);
    // The same region again, from another operation: the first handle means nothing any more.
    void* again = nullptr;
    const RegionsRegisterBatch second{nullptr, 0, 1, ranges, &again};
    image.regions(domain, &second);
    CHECK(again != handles[0]);
    const RegionReference stale{1, handles[0]};
    const RegionsUnregisterBatch no_end{1, &stale};
    image.regions_end(domain, &no_end);
    const RegionReference references[] = {
        {1, handles[1]}, {1, handles[2]}, {1, handles[1]}, {1, garbage}, {1, nullptr}};
    const RegionsUnregisterBatch ends{5, references};
    image.regions_end(domain, &ends);
    image.heap_end(domain, at(0x900000));
    image.heap_end(domain, at(0x900000));
    image.heap_end(domain, garbage);
}

void check_atb(const tests::Log& log) {
    const Records records = of_pool(log, format::Pool::kAtb);
    CHECK_EQUAL(count_of(records, format::EventKind::kMalloc), 3U);
    CHECK_EQUAL(count_of(records, format::EventKind::kFree), 2U);
    CHECK_EQUAL(totals_of(records, 2).live, 4096);
    CHECK_EQUAL(totals_of(records, 2).reserved, 1 << 20);
}

// Threads that register, unregister and take handles at the same time.
void hammer_atb(const Image& image) {
    std::vector<std::thread> threads;
    for (std::uint64_t number = 0; number < 4; ++number) {
        threads.emplace_back([&image, number] {
            void* const domain = image.create("atb");
            for (std::uint64_t round = 0; round < 5000; ++round) {
                const std::uint64_t base = 0x100000000 + number * 0x10000000;
                void* const heap = report_heap(image, "atb", base, 4096, 5);
                const VirtualRange ranges[] = {{5, at(base), 2048}, {5, at(base + 2048), 2048}};
                void* handles[2];
                const RegionsRegisterBatch batch{heap, 0, 2, ranges, handles};
                image.regions(domain, &batch);
                const RegionReference references[] = {{1, handles[1]}, {1, handles[0]}};
                const RegionsUnregisterBatch ends{2, references};
                image.regions_end(domain, &ends);
                image.heap_end(domain, heap);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void report_marks(const Image& image) {
    std::uint64_t tool = 0;
    image.tool_id(&tool);
    CHECK_EQUAL(tool, 0x1003U);
    image.mark("first", nullptr);
    image.mark(nullptr, nullptr);
    image.mark("sanitizer-op:name=add", nullptr);
    image.mark("memscope-aten-b: name=add", nullptr);
    const std::uint64_t outer = image.range_start("outer", nullptr);
    const std::uint64_t inner = image.range_start(nullptr, nullptr);
    CHECK(outer != 0 && inner == outer + 1);
    image.range_end(outer);
    image.range_end(inner);
    image.range_end(0);
}

void check_marks(const tests::Log& log) {
    std::map<std::uint32_t, std::string> strings;
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kString) {
            strings[definition.header.id] = definition.payload;
        }
    }
    const Records marks = log.of(format::EventKind::kMark);
    CHECK_EQUAL(marks.size(), 2U);
    CHECK(strings[marks[0].name_id] == "first" && format::device_of(marks[0]) == format::kDeviceNone);
    CHECK_EQUAL(marks[1].name_id, 0U);
    const Records starts = log.of(format::EventKind::kRangeStart);
    const Records ends = log.of(format::EventKind::kRangeEnd);
    CHECK(starts.size() == 2 && ends.size() == 2);
    CHECK(strings[starts[0].name_id] == "outer" && starts[1].name_id == 0);
    CHECK(ends[0].extra == starts[0].extra && ends[1].extra == starts[1].extra);
}

}  // namespace

int main() {
    CHECK_EQUAL(InitInjectionMstx(nullptr), 1);
    Image first;
    inject(first);  // before anything is configured
    first.mark("lost", nullptr);
    CHECK_EQUAL(first.range_start("lost", nullptr), 0U);
    report_block(first, "ptaCaching", 0x10000, 1);

    ScratchFolder folder;
    CHECK(recorder::configure(folder.settings("devices=npu\nnative_stack_depth=3\n").c_str()));
    Image second;
    inject(second);
    inject(first);
    CHECK(first.create("atb") == second.create("atb"));
    // An image with an old header: marks and ranges alone, and no function that tells who the tool is.
    Image old;
    modules_of_asking = 1;
    core_size = 4;
    inject(old);
    CHECK(old.mark != nullptr && old.range_end != nullptr && old.tool_id == nullptr && old.create == nullptr);

    report_caching(first);
    report_workspace(first);
    report_mindspore(second);
    report_atb(second);
    hammer_atb(second);
    report_marks(second);
    recorder::close();

    const tests::Log log = tests::read_log(folder.path(), getpid());
    const Records atb = of_pool(log, format::Pool::kAtb);
    CHECK_EQUAL(totals_of(atb, 5).live, 0);
    CHECK_EQUAL(totals_of(atb, 5).reserved, 0);
    tests::Log without_hammer = log;
    Records& left = without_hammer.records;
    left.erase(std::remove_if(left.begin(), left.end(),
                              [](const format::Record& record) { return format::device_of(record) == 5; }),
               left.end());
    check_caching(log);
    check_workspace(log);
    check_mindspore(log);
    check_atb(without_hammer);
    check_marks(log);
    return 0;
}
