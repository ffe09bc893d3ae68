// How the observers hal and acl read the driver's bits, its structs and device lists. It also tests the records that
// come of a driver made of a few functions of this test.
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <string>

#include "core/observe/blocks.h"
#include "core/writer/recorder.h"
#include "sources/ascend/hal/allocation_flags.h"
#include "sources/ascend/hal/hal.h"
#include "sources/visible_devices.h"
#include "tests/check.h"
#include "tests/hooked.h"
#include "tests/log_reader.h"

using namespace msmemscope;

namespace {

constexpr unsigned long long kDevice = 1ULL << 10U;
constexpr unsigned long long kHost = 2ULL << 10U;
constexpr unsigned long long kHostUva = 6ULL << 10U;
constexpr unsigned long long kHuge = 1ULL << 17U;
constexpr unsigned long long kGiant = 1ULL << 31U;

unsigned long long of_module(unsigned long long module) { return module << 56U; }

std::string attribute(const hal::Allocation& allocation) {
    return std::string(hal::module_name(allocation.module)) + " " + hal::page_type_name(allocation.page_type) + " " +
           hal::allocation_type_name(allocation.type);
}

void flags() {
    const hal::Allocation plain = hal::decode_flag(kDevice | 5);
    CHECK(!plain.on_host);
    CHECK_EQUAL(plain.device, 5U);
    CHECK(attribute(plain) == "SLOG normal alloc");
    CHECK(attribute(hal::decode_flag(kDevice | kHuge | of_module(7))) == "RUNTIME huge alloc");
    CHECK(attribute(hal::decode_flag(kDevice | kGiant | of_module(3))) == "HCCL giant alloc");
    CHECK(attribute(hal::decode_flag(kDevice | kGiant | kHuge | of_module(33))) == "APP giant alloc");
    CHECK(attribute(hal::decode_flag(of_module(75))) == "INVLID_MOUDLE_ID normal alloc");
    CHECK(attribute(hal::decode_flag(of_module(76))) == "UNKNOWN normal alloc");
    CHECK(attribute(hal::decode_flag(of_module(255))) == "UNKNOWN normal alloc");
    CHECK_EQUAL(hal::decode_flag(~0ULL).device, 0x3FFU);
    for (unsigned long long kind = 0; kind < 16; ++kind) {
        CHECK(hal::decode_flag(kind << 10U).on_host == (kind == 2 || kind == 6));
    }
}

void properties() {
    const hal::Allocation normal = hal::decode_properties({1, 3, 33, 0, 0, 0});
    CHECK(!normal.on_host);
    CHECK_EQUAL(normal.device, 3U);
    CHECK(attribute(normal) == "APP normal create");
    CHECK(attribute(hal::decode_properties({1, 0, 7, 1, 0, 0})) == "RUNTIME huge create");
    CHECK(attribute(hal::decode_properties({1, 0, 4000, 2, 0, 0})) == "UNKNOWN giant create");
    CHECK(hal::decode_properties({0, 0, 0, 0, 0, 0}).on_host);
    CHECK(hal::decode_properties({2, 0, 0, 0, 0, 0}).on_host);
}

void device_lists() {
    VisibleDevices devices;
    for (const char* text : {static_cast<const char*>(nullptr), ""}) {
        CHECK(devices.parse(text));
        CHECK_EQUAL(devices.physical(3), 3);
    }
    CHECK(devices.parse(" 4, 2 ,7"));
    CHECK_EQUAL(devices.physical(0), 4);
    CHECK_EQUAL(devices.physical(1), 2);
    CHECK_EQUAL(devices.physical(2), 7);
    CHECK_EQUAL(devices.physical(3), -1);
    CHECK_EQUAL(devices.physical(-1), -1);
    for (const char* text : {"x", "1,", ",1", "1,,2", "-1", "1 2", "99999999999", " ", "0x1"}) {
        CHECK(!devices.parse(text));
        CHECK_EQUAL(devices.physical(3), 3);
    }
}

bool has_fact_about(const tests::Log& log, const std::string& begin) {
    for (const tests::Definition& definition : log.definitions) {
        if (definition.header.kind == format::DefinitionKind::kFact && definition.payload.rfind(begin, 0) == 0) {
            return true;
        }
    }
    return false;
}

// The driver: it gives out what the test puts here, and refuses to take back what the test says.
void* next_block = nullptr;
int free_status = 0;

void* block_of(std::uintptr_t number) { return reinterpret_cast<void*>(number * 0x1000); }

int driver_alloc(void** pointer, unsigned long long size, unsigned long long) {
    *pointer = next_block;
    return size == 0 ? 6 : 0;
}

const auto hooked_alloc = tests::hooked(hal::kHooks, "halMemAlloc", &driver_alloc);

// As a driver that is made of its other functions.
int driver_create(void** handle, std::size_t, const hal::MemoryProperties*, std::uint64_t) {
    return hooked_alloc(handle, 1, kDevice);
}

int driver_free(void*) { return free_status; }

int driver_register(void*, std::uint64_t, std::uint32_t) { return 0; }

const auto hooked_create = tests::hooked(hal::kHooks, "halMemCreate", &driver_create);
const auto hooked_free = tests::hooked(hal::kHooks, "halMemFree", &driver_free);
const auto hooked_release = tests::hooked(hal::kHooks, "halMemRelease", &driver_free);
const auto hooked_register = tests::hooked(hal::kHooks, "aclrtHostRegisterV2", &driver_register);
const auto hooked_unregister = tests::hooked(hal::kHooks, "aclrtHostUnregister", &driver_free);

void* allocate(std::uintptr_t number, unsigned long long size, unsigned long long flag) {
    next_block = block_of(number);
    void* pointer = nullptr;
    CHECK_EQUAL(hooked_alloc(&pointer, size, flag), size == 0 ? 6 : 0);
    return pointer;
}

void recorded() {
    ScratchFolder folder;
    hooked_free(allocate(1, 100, kDevice));  // nothing is configured: they only pass through
    CHECK(recorder::configure(folder.settings("devices=npu:0,npu:3,cpu\ncollect_mode=deferred\n").c_str()));
    void* const early = allocate(2, 200, kDevice);
    hooked_free(allocate(3, 300, kDevice));
    {
        const RecordingScope scope(true);
        recorder::start_collecting(scope);
    }
    hooked_free(block_of(99));  // from before the tool came
    hooked_free(early);
    allocate(4, 0, kDevice);        // refused
    allocate(5, 400, kDevice | 1);  // not selected
    hooked_free(block_of(5));
    allocate(6, 500, kDevice | 3 | kHuge | of_module(7));
    allocate(7, 500, kDevice | 3 | kHuge | of_module(7));
    allocate(8, 600, kHostUva | 3);
    allocate(9, 700, kHost | of_module(33));
    free_status = 3;
    CHECK_EQUAL(hooked_free(block_of(6)), 3);
    free_status = 0;
    hooked_free(block_of(6));
    hooked_free(block_of(8));

    next_block = block_of(10);
    void* handle = nullptr;
    const hal::MemoryProperties giant{1, 3, 45, 2, 0, 0};
    CHECK_EQUAL(hooked_create(&handle, 800, &giant, 0), 0);
    CHECK_EQUAL(hooked_create(&handle, 800, nullptr, 0), 0);
    CHECK_EQUAL(hooked_release(block_of(10)), 0);

    CHECK_EQUAL(hooked_register(block_of(11), 900, 0x10000002), 0);
    CHECK_EQUAL(hooked_register(block_of(12), 900, 0x2), 0);
    CHECK_EQUAL(hooked_unregister(block_of(12)), 0);
    CHECK_EQUAL(hooked_unregister(block_of(11)), 0);
    recorder::observe_allocation(format::Pool::kHost, format::kDeviceCpu, 0x13000, 1000, MSMEMSCOPE_CALL_SITE());
    CHECK_EQUAL(hooked_register(block_of(0x13), 1000, 0x10000000), 0);  // a CPU tensor is recorded once
    CHECK_EQUAL(hooked_unregister(block_of(0x13)), 0);
    recorder::close();

    struct Expected {
        format::EventKind kind;
        std::uintptr_t number;
        std::int64_t size;
        int device;
        const char* attribute;
    };
    constexpr format::EventKind kMalloc = format::EventKind::kMalloc;
    constexpr format::EventKind kFree = format::EventKind::kFree;
    const char* const huge = "1=RUNTIME,2=huge,3=alloc";
    const Expected expected[] = {
        {kMalloc, 2, 200, 0, "1=SLOG,2=normal,3=alloc"},  // from before
        {kFree, 2, 200, 0, ""},
        {kMalloc, 6, 500, 3, huge},
        {kMalloc, 7, 500, 3, huge},
        {kMalloc, 8, 600, format::kDeviceCpu, "4=#1"},
        {kMalloc, 9, 700, format::kDeviceCpu, "4=#1"},
        {kFree, 6, 500, 3, ""},  // once: the driver had kept it the first time
        {kFree, 8, 600, format::kDeviceCpu, ""},
        {kMalloc, 10, 800, 3, "1=GE,2=giant,3=create"},
        {kFree, 10, 800, 3, ""},
        {kMalloc, 11, 900, format::kDeviceCpu, "4=#1"},
        {kFree, 11, 900, format::kDeviceCpu, ""},
    };
    const tests::Log log = tests::read_log(folder.path(), getpid());
    CHECK(has_fact_about(log, "unobserved.dcmi=") || has_fact_about(log, "observed.dcmi="));
    std::size_t index = 0;
    for (const format::Record& record : log.records) {
        if (record.pool != format::Pool::kHal) {
            continue;
        }
        CHECK(index < std::size(expected));
        const Expected& wanted = expected[index++];
        CHECK(record.kind == wanted.kind);
        CHECK_EQUAL(record.address, wanted.number * 0x1000);
        CHECK_EQUAL(record.size, wanted.size);
        CHECK_EQUAL(static_cast<int>(format::device_of(record)), wanted.device);
        CHECK(tests::attributes_of(log, record.attribute_id) == wanted.attribute);
    }
    CHECK_EQUAL(index, std::size(expected));
}

}  // namespace

int main() {
    flags();
    properties();
    device_lists();
    recorded();
    return 0;
}
