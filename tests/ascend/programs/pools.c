/* Tells of memory as MindSpore and ATB do, of steps, and of marks.

   Fields that a producer leaves uninitialised are filled with garbage here. Prints what came back. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    uint32_t device;
    void* address;
    uint64_t size;
} range_t;
typedef struct {
    int32_t usage, type;
    const range_t* range;
} heap_t;
typedef struct {
    void* heap;
    int32_t type;
    size_t count;
    const range_t* ranges;
    void** handles;
} batch_t;
typedef struct {
    int32_t kind;
    void* pointer_or_handle;
} reference_t;
typedef struct {
    size_t count;
    const reference_t* references;
} end_t;

void mstxMarkA(const char*, void*);
uint64_t mstxRangeStartA(const char*, void*);
void mstxRangeEnd(uint64_t);
void mstxGetToolId(uint64_t*);
void* mstxDomainCreateA(const char*);
void* mstxMemHeapRegister(void*, const heap_t*);
void mstxMemHeapUnregister(void*, void*);
void mstxMemRegionsRegister(void*, const batch_t*);
void mstxMemRegionsUnregister(void*, const end_t*);
int aclInit(const char*);
int aclrtSetDevice(int32_t);
int aclrtCreateStream(void**);

enum { GARBAGE = -559038737 };
static char memory[1 << 20]; /* addresses; nothing is written there */

static void* heap_of(const char* domain, void* address, uint64_t size) {
    range_t range = {1, address, size};
    heap_t heap = {GARBAGE, GARBAGE, &range};
    return mstxMemHeapRegister(mstxDomainCreateA(domain), &heap);
}

/* MindSpore keeps its domain, and tells the total after each block. */
static void mindspore(void) {
    void* domain = mstxDomainCreateA("mindsporeMemPool");
    for (int index = 0; index < 4; ++index) {
        range_t range = {1, memory + index * 4096, 1024 * (index + 1)};
        batch_t batch = {(void*)8, GARBAGE, 1, &range, (void**)8};
        mstxMemRegionsRegister(domain, &batch);
        heap_of("mindsporeMemPool", memory, 1 << 19);
    }
    for (int index = 0; index < 3; ++index) {
        reference_t reference = {GARBAGE, memory + index * 4096};
        end_t end = {1, &reference};
        mstxMemRegionsUnregister(domain, &end);
        heap_of("mindsporeMemPool", memory, 1 << 18);
    }
}

/* ATB: a heap for an operation's workspace, and a batch of regions for each kernel in it. */
static void atb(void) {
    void* domain = mstxDomainCreateA("atb");
    char* workspace = memory + (1 << 19);
    void* heap = heap_of("atb", workspace, 65536);
    printf("heap %s\n", heap == workspace ? "is its address" : "is something else");
    for (int kernel = 0; kernel < 2; ++kernel) {
        range_t ranges[3] = {{1, workspace, 8192}, {1, workspace + 8192, 512}, {1, workspace + 16384, 1024}};
        void* handles[3] = {0, 0, 0};
        batch_t batch = {heap, 0, 3, ranges, handles};
        mstxMemRegionsRegister(domain, &batch);
        reference_t references[3] = {{1, handles[0]}, {1, handles[1]}, {1, handles[2]}};
        end_t end = {3, references};
        printf("handles %d\n", handles[0] && handles[1] && handles[2] && handles[0] != handles[1]);
        mstxMemRegionsUnregister(domain, &end);
    }
    mstxMemHeapUnregister(domain, heap);
}

/* ATB: a region that ends by its address, and more of them at once than most programs have. */
static void references(void) {
    enum { MANY = 5000 };
    static range_t ranges[MANY];
    static void* handles[MANY];
    static reference_t references[MANY];
    void* domain = mstxDomainCreateA("atb");
    void* heap = heap_of("atb", memory, sizeof(memory));
    range_t range = {1, memory + 64, 64};
    batch_t one = {heap, 0, 1, &range, handles};
    mstxMemRegionsRegister(domain, &one);
    references[0] = (reference_t){0, range.address};
    end_t end = {1, references};
    mstxMemRegionsUnregister(domain, &end);
    for (int index = 0; index < MANY; ++index) {
        ranges[index] = (range_t){1, memory + 128 * index, 128};
    }
    batch_t all = {heap, 0, MANY, ranges, handles};
    mstxMemRegionsRegister(domain, &all);
    for (int index = 0; index < MANY; ++index) {
        references[index] = (reference_t){1, handles[index]};
    }
    end_t ends = {MANY, references};
    mstxMemRegionsUnregister(domain, &ends);
    mstxMemHeapUnregister(domain, heap);
}

int main(int argc, char** argv) {
    uint64_t tool = 0;
    void* stream = NULL;
    if (aclInit(NULL) != 0 || aclrtSetDevice(1) != 0 || aclrtCreateStream(&stream) != 0) {
        return 1;
    }
    mstxGetToolId(&tool);
    printf("tool %llu\n", (unsigned long long)tool);
    for (int step = 1; step <= 5; ++step) {
        uint64_t range = mstxRangeStartA("step start", stream);
        char text[16];
        snprintf(text, sizeof(text), "step %d", step);
        mstxMarkA(text, stream);
        if (step == 2 || argc > 1) {
            mindspore();
        }
        if (step == 3 && argc > 1 && strcmp(argv[1], "references") == 0) {
            references();
        }
        if (step == 4) {
            atb();
        }
        mstxRangeEnd(range);
    }
    mstxMarkA(NULL, NULL);
    return 0;
}
