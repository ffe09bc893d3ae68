// Memory of the driver in every form: blocks with each page type and module, physical memory, pinned host memory, two
// devices. Prints what a device says is in use, behind the word that a test looks for.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct properties {
    uint32_t side, device, module, page_type, memory_type;
    uint64_t reserved;
};

int halMemAlloc(void **pointer, unsigned long long size, unsigned long long flag);
int halMemFree(void *pointer);
int halMemCreate(void **handle, size_t size, const struct properties *properties, uint64_t flag);
int halMemRelease(void *handle);
int aclInit(const char *path);
int aclFinalize(void);
int aclrtSetDevice(int32_t device);
int aclrtMallocAlign32(void **pointer, size_t bytes, uint32_t policy);
int aclrtFree(void *pointer);
int aclrtMallocHost(void **pointer, size_t bytes);
int aclrtFreeHost(void *pointer);
int aclrtHostRegister(void *pointer, uint64_t bytes, int type, void **device_pointer);
int aclrtHostRegisterV2(void *pointer, uint64_t bytes, uint32_t flag);
int aclrtHostUnregister(void *pointer);
int aclrtGetMemInfo(int kind, size_t *free_bytes, size_t *total_bytes);

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static const unsigned long long kDevice = 1ULL << 10, kHuge = 1ULL << 17, kGiant = 1ULL << 31;

static void all_flags(void) {
    const unsigned long long page_types[] = {0, kHuge, kGiant, kHuge | kGiant};
    for (unsigned long long module = 0; module < 77; ++module) {
        for (int page_type = 0; page_type < 4; ++page_type) {
            void *block = NULL;
            CHECK(halMemAlloc(&block, 1000 + module, 1 | kDevice | page_types[page_type] | module << 56));
            CHECK(halMemFree(block));
        }
    }
    for (uint32_t page_type = 0; page_type < 3; ++page_type) {
        const struct properties properties = {1, 1, 45, page_type, 0, 0};
        void *handle = NULL;
        CHECK(halMemCreate(&handle, 2 << 20, &properties, 0));
        printf("handle %p\n", handle);
        CHECK(halMemRelease(handle));
    }
}

static void pinned(void) {
    static char own[5000];
    void *block = NULL;
    void *ignored = NULL;
    CHECK(aclrtMallocHost(&block, 3000));
    CHECK(aclrtFreeHost(block));
    CHECK(halMemAlloc(&block, 4000, 6ULL << 10 | 1));  // host memory at an address that devices share
    CHECK(halMemFree(block));
    CHECK(aclrtHostRegisterV2(own, sizeof own, 0x10000002));
    CHECK(aclrtHostUnregister(own));
    CHECK(aclrtHostRegisterV2(own, 4999, 0x2));  // mapped and not pinned
    CHECK(aclrtHostUnregister(own));
    CHECK(aclrtHostRegister(own, 4998, 0, &ignored));
    CHECK(aclrtHostUnregister(own));
    const struct properties host_side = {0, 0, 33, 0, 0, 0};
    CHECK(halMemCreate(&block, 4 << 20, &host_side, 0));
    CHECK(halMemRelease(block));
}

static void in_use(int device) {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CHECK(aclrtGetMemInfo(0, &free_bytes, &total_bytes));
    printf("used %d %zu\n", device, total_bytes - free_bytes);
}

static void two_devices(void) {
    void *blocks[4];
    for (int device = 0; device < 2; ++device) {
        CHECK(aclrtSetDevice(device));
        CHECK(aclrtMallocAlign32(&blocks[device * 2], 7000 + device, 0));
        CHECK(aclrtMallocAlign32(&blocks[device * 2 + 1], 8000 + device, 0));
        CHECK(aclrtFree(blocks[device * 2]));
        in_use(device);
    }
}

int main(int count, char **words) {
    CHECK(aclInit(NULL));
    for (int index = 1; index < count; ++index) {
        if (strcmp(words[index], "flags") == 0) all_flags();
        if (strcmp(words[index], "pinned") == 0) {
            CHECK(aclrtSetDevice(0));
            pinned();
        }
        if (strcmp(words[index], "devices") == 0) two_devices();
    }
    CHECK(aclFinalize());
    return 0;
}
