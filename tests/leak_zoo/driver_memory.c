/* Memory of the driver in twelve steps of mstx: a channel that is opened in each step and never closed, buffers that are
   used in turn, a table that is set up late, and work that is given back. The function that leaks is marked. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int halMemAlloc(void **pointer, unsigned long long size, unsigned long long flag);
int halMemFree(void *pointer);
int aclInit(const char *path);
int aclrtSetDevice(int32_t device);
uint64_t mstxRangeStartA(const char *message, void *stream);
void mstxRangeEnd(uint64_t id);

enum { STEPS = 12, BUFFERS = 3, HCCL = 3, APP = 33 };
static const unsigned long long kDevice = 1ULL << 10;

static void check(int status) {
    if (status != 0) {
        fprintf(stderr, "the driver answers %d\n", status);
        exit(1);
    }
}

static void *allocate(unsigned long long size, unsigned long long module) {
    void *block = NULL;
    check(halMemAlloc(&block, size, kDevice | module << 56));
    return block;
}

__attribute__((noinline)) void open_channel(void) { /* LEAK */
    void *channel = allocate(3 << 20, HCCL);
    __asm__ volatile("" : : "r"(channel) : "memory");
}

__attribute__((noinline)) void swap_buffers(int step) {
    static void *buffers[BUFFERS];
    void **buffer = &buffers[step % BUFFERS];
    if (*buffer != NULL) {
        check(halMemFree(*buffer));
    }
    *buffer = allocate(2 << 20, APP);
    __asm__ volatile("" : : "r"(*buffer) : "memory");
}

__attribute__((noinline)) void set_up_table(void) {
    void *table = allocate(5 << 20, APP);
    __asm__ volatile("" : : "r"(table) : "memory");
}

__attribute__((noinline)) void work(void) {
    void *block = allocate(7 << 20, APP);
    check(halMemFree(block));
}

int main(void) {
    check(aclInit(NULL));
    check(aclrtSetDevice(0));
    for (int step = 0; step < STEPS; ++step) {
        const uint64_t range = mstxRangeStartA("step start", NULL);
        const uint64_t inner = mstxRangeStartA("forward", NULL);
        open_channel();
        swap_buffers(step);
        work();
        if (step == 3) {
            set_up_table();
        }
        mstxRangeEnd(inner);
        mstxRangeEnd(range);
    }
    return 0;
}
