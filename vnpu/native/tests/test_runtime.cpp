// The runtime as torch_npu calls it: devices by thread, memory, copies, streams, events, texts of errors.
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

extern "C" {
int aclInit(const char*);
int aclsysGetCANNVersion(int, void*);
int aclrtGetDeviceCount(uint32_t*);
int aclrtSetDevice(int32_t);
int aclrtGetDevice(int32_t*);
int aclrtResetDevice(int32_t);
int aclrtGetCurrentContext(void**);
int aclrtSetCurrentContext(void*);
int aclrtCreateContext(void**, int32_t);
int aclrtDestroyContext(void*);
int aclrtGetPrimaryCtxState(int32_t, uint32_t*, int32_t*);
int aclrtGetMemInfo(int, size_t*, size_t*);
int aclrtGetMemUsageInfo(int32_t, void*, size_t, size_t*);
int aclrtMalloc(void**, size_t, uint32_t);
int aclrtMallocAlign32(void**, size_t, uint32_t);
int aclrtFree(void*);
int aclrtMallocHost(void**, size_t);
int aclrtFreeHost(void*);
int aclrtHostRegisterV2(void*, uint64_t, uint32_t);
int aclrtHostRegister(void*, uint64_t, int, void**);
int aclrtHostUnregister(void*);
int aclrtGetDeviceImpl(int32_t*);
int aclrtStreamGetIdImpl(void*, int32_t*);
int aclrtMemcpy(void*, size_t, const void*, size_t, int);
int aclrtMemset(void*, size_t, int32_t, size_t);
int aclrtCreateStream(void**);
int aclrtDestroyStream(void*);
int aclrtStreamGetId(void*, int32_t*);
int aclrtStreamQuery(void*, int32_t*);
int aclrtCreateEventExWithFlag(void**, uint32_t);
int aclrtDestroyEvent(void*);
int aclrtRecordEvent(void*, void*);
int aclrtEventElapsedTime(float*, void*, void*);
int aclrtProcessReport(int32_t);
const char* aclGetRecentErrMsg();
}

namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kTotal = size_t{4} << 30;

bool last_error_has(const char* words) { return std::string(aclGetRecentErrMsg()).find(words) != std::string::npos; }

void devices() {
    uint32_t count = 0;
    int32_t device = -1;
    void* context = nullptr;
    CHECK_EQUAL(aclInit(nullptr), 0);
    CHECK_EQUAL(aclrtGetDeviceCount(&count), 0);
    CHECK_EQUAL(count, 2u);
    CHECK_EQUAL(aclrtGetDevice(&device), 107002);
    CHECK(last_error_has("aclrtSetDevice"));
    CHECK(!last_error_has("aclrtSetDevice"));  // asking takes it away
    CHECK_EQUAL(aclrtGetCurrentContext(&context), 107002);
    CHECK_EQUAL(aclrtSetDevice(2), 107001);
    CHECK(last_error_has("device 2 does not exist"));
    CHECK_EQUAL(aclrtSetDevice(-1), 107001);
    uint32_t flags = 0;
    int32_t active = -1;
    CHECK_EQUAL(aclrtGetPrimaryCtxState(1, &flags, &active), 0);
    CHECK_EQUAL(active, 0);
    CHECK_EQUAL(aclrtSetDevice(1), 0);
    CHECK_EQUAL(aclrtGetDevice(&device), 0);
    CHECK_EQUAL(device, 1);
    CHECK_EQUAL(aclrtGetPrimaryCtxState(1, &flags, &active), 0);
    CHECK_EQUAL(active, 1);

    // Another thread has no device until it sets one, or takes over a context.
    CHECK_EQUAL(aclrtGetCurrentContext(&context), 0);
    std::thread([context] {
        int32_t other = -1;
        CHECK_EQUAL(aclrtGetDevice(&other), 107002);
        CHECK_EQUAL(aclrtSetCurrentContext(context), 0);
        CHECK_EQUAL(aclrtGetDevice(&other), 0);
        CHECK_EQUAL(other, 1);
        CHECK_EQUAL(aclrtSetCurrentContext(&other), 107000);
    }).join();

    void* made = nullptr;
    CHECK_EQUAL(aclrtCreateContext(&made, 0), 0);
    CHECK_EQUAL(aclrtGetDevice(&device), 0);
    CHECK_EQUAL(device, 0);
    CHECK_EQUAL(aclrtDestroyContext(made), 0);
    CHECK_EQUAL(aclrtDestroyContext(made), 107000);
    CHECK_EQUAL(aclrtGetDevice(&device), 107002);
    CHECK_EQUAL(aclrtSetDevice(1), 0);
}

void memory() {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CHECK_EQUAL(aclrtGetMemInfo(1, &free_bytes, &total_bytes), 0);
    CHECK_EQUAL(total_bytes, kTotal);
    CHECK_EQUAL(free_bytes, kTotal - 64 * kMib);  // the overhead of the module RUNTIME

    void* block = nullptr;
    CHECK_EQUAL(aclrtMallocAlign32(&block, 10 * kMib, 0), 0);
    void* padded = nullptr;
    CHECK_EQUAL(aclrtMalloc(&padded, 100, 0), 0);
    CHECK_EQUAL(aclrtGetMemInfo(1, &free_bytes, &total_bytes), 0);
    CHECK_EQUAL(free_bytes, kTotal - 74 * kMib - 132);

    struct Usage {
        char name[32];
        uint64_t current;
        uint64_t peak;
        size_t reserved[8];
    } usage[4];
    size_t count = 0;
    CHECK_EQUAL(aclrtGetMemUsageInfo(1, usage, 4, &count), 0);
    CHECK_EQUAL(count, size_t{2});
    CHECK(std::strcmp(usage[0].name, "RUNTIME") == 0);
    CHECK_EQUAL(usage[0].current, 64 * kMib);
    CHECK(std::strcmp(usage[1].name, "APP") == 0);
    CHECK_EQUAL(usage[1].current, 10 * kMib + 132);

    const char words[] = "copied there and back";
    char back[sizeof words] = {};
    CHECK_EQUAL(aclrtMemcpy(block, 10 * kMib, words, sizeof words, 1), 0);
    CHECK_EQUAL(aclrtMemcpy(back, sizeof back, block, sizeof words, 2), 0);
    CHECK(std::strcmp(words, back) == 0);
    CHECK_EQUAL(aclrtMemcpy(back, 3, block, sizeof words, 2), 107000);
    CHECK(last_error_has("room for 3"));
    CHECK_EQUAL(aclrtMemcpy(nullptr, 3, block, 1, 2), 107000);
    CHECK_EQUAL(aclrtMemcpy(nullptr, 0, nullptr, 0, 2), 0);
    CHECK_EQUAL(aclrtMemset(block, 10 * kMib, 'z', 4), 0);
    CHECK_EQUAL(static_cast<char*>(block)[3], 'z');

    void* none = nullptr;
    CHECK_EQUAL(aclrtMallocAlign32(&none, 2 * kTotal, 0), 207001);
    CHECK(last_error_has("no memory for"));
    CHECK_EQUAL(aclrtMallocAlign32(&none, 0, 0), 107000);
    CHECK_EQUAL(aclrtFree(back), 107000);
    CHECK_EQUAL(aclrtFree(block), 0);
    CHECK_EQUAL(aclrtFree(padded), 0);

    void* pinned = nullptr;
    CHECK_EQUAL(aclrtMallocHost(&pinned, 1000), 0);
    CHECK_EQUAL(aclrtFreeHost(pinned), 0);

    char own[64];
    void* seen_by_device = nullptr;
    CHECK_EQUAL(aclrtHostUnregister(own), 107000);
    CHECK_EQUAL(aclrtHostRegisterV2(nullptr, 64, 0), 107000);
    CHECK_EQUAL(aclrtHostRegisterV2(own, sizeof own, 0x10000000), 0);
    CHECK_EQUAL(aclrtHostRegister(own, sizeof own, 0, &seen_by_device), 107000);
    CHECK_EQUAL(aclrtHostUnregister(own), 0);
    CHECK_EQUAL(aclrtHostRegister(own, sizeof own, 0, &seen_by_device), 0);
    CHECK(seen_by_device == own);
    CHECK_EQUAL(aclrtHostUnregister(own), 0);

    CHECK_EQUAL(aclrtResetDevice(1), 0);
    CHECK_EQUAL(aclrtSetDevice(0), 0);
    CHECK_EQUAL(aclrtGetMemUsageInfo(1, usage, 4, &count), 0);
    CHECK_EQUAL(usage[0].current, uint64_t{0});
}

void streams_and_events() {
    void* first = nullptr;
    void* second = nullptr;
    int32_t number = -1;
    int32_t other = -1;
    int32_t status = -1;
    CHECK_EQUAL(aclrtCreateStream(&first), 0);
    CHECK_EQUAL(aclrtCreateStream(&second), 0);
    CHECK(first != second);
    CHECK_EQUAL(aclrtStreamGetId(first, &number), 0);
    CHECK_EQUAL(aclrtStreamGetId(second, &other), 0);
    CHECK(number != other);
    CHECK_EQUAL(aclrtStreamGetIdImpl(second, &number), 0);
    CHECK_EQUAL(number, other);
    CHECK_EQUAL(aclrtGetDeviceImpl(&number), 0);
    CHECK_EQUAL(aclrtGetDevice(&other), 0);
    CHECK_EQUAL(number, other);
    CHECK_EQUAL(aclrtStreamQuery(first, &status), 0);
    CHECK_EQUAL(status, 0);

    void* begin = nullptr;
    void* end = nullptr;
    float milliseconds = -1;
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&begin, 0), 0);
    CHECK_EQUAL(aclrtCreateEventExWithFlag(&end, 0), 0);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, begin, end), 107000);
    CHECK_EQUAL(aclrtRecordEvent(begin, first), 0);
    CHECK_EQUAL(aclrtProcessReport(5), 0);
    CHECK_EQUAL(aclrtRecordEvent(end, second), 0);
    CHECK_EQUAL(aclrtEventElapsedTime(&milliseconds, begin, end), 0);
    CHECK(milliseconds >= 5.0f);
    CHECK_EQUAL(aclrtDestroyEvent(begin), 0);
    CHECK_EQUAL(aclrtDestroyEvent(end), 0);
    CHECK_EQUAL(aclrtDestroyStream(first), 0);
    CHECK_EQUAL(aclrtDestroyStream(second), 0);
    CHECK_EQUAL(aclrtDestroyStream(nullptr), 107000);
}

void versions() {
    char version[128 + 4 * 64 + 128];
    std::memset(version, 'x', sizeof(version));
    CHECK(aclsysGetCANNVersion(0, version) != 0);  // none was chosen
    CHECK_EQUAL(std::strlen(version), 0);
}

}  // namespace

int main() {
    versions();
    devices();
    memory();
    streams_and_events();
    return 0;
}
