/* Threads allocate and free without pause and note in a shared file what they have done; somebody kills the process.
 * Each thread keeps every 97th block, up to a number. With -DNPU the memory is the driver's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMostThreads = 16, kKeptEvery = 97, kMostKept = 500, kSizes = 4093 };

/* Also in tests/support/kills.py. */
struct Progress {
    uint64_t thread_id;
    uint64_t allocations;
    uint64_t frees;
    uint64_t unused[5];
};

static struct Progress* progress;

#ifdef NPU
int halMemAlloc(void** pointer, unsigned long long size, unsigned long long flag);
int halMemFree(void* pointer);

static void* allocate(size_t bytes) {
    void* block = NULL;
    return halMemAlloc(&block, bytes, 1ULL << 10) == 0 ? block : NULL;
}

static void release(void* block) { (void)halMemFree(block); }
#else
void* fake_tensor_allocate(size_t bytes);
void fake_tensor_free(void* block);

static void* allocate(size_t bytes) { return fake_tensor_allocate(bytes); }
static void release(void* block) { fake_tensor_free(block); }
#endif

static void* work(void* argument) {
    struct Progress* const own = &progress[(long)argument];
    __atomic_store_n(&own->thread_id, (uint64_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    uint64_t frees = 0;
    for (uint64_t number = 0;; number++) {
        void* const block = allocate(64 * (1 + number % kSizes));
        if (block == NULL) {
            _exit(95);
        }
        __atomic_store_n(&own->allocations, number + 1, __ATOMIC_RELEASE);
        if (number % kKeptEvery != 0 || number / kKeptEvery >= kMostKept) {
            release(block);
            __atomic_store_n(&own->frees, ++frees, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

int main(int argc, char** argv) {
    const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    const int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
    const size_t bytes = kMostThreads * sizeof(struct Progress);
    if (file < 0 || threads < 1 || threads > kMostThreads) {
        return 98;
    }
    progress = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (progress == MAP_FAILED) {
        return 97;
    }
    for (long number = 0; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void*)number) != 0) {
            return 96;
        }
    }
    pause();
    return 0;
}
