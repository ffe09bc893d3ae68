/* T threads that are alive at the same time, with stacks of S bytes: each allocates, waits for all others, and frees. */
#include <limits.h>
#include <pthread.h>
#include <stdint.h>

#include "target.h"

enum { kMostThreads = 4000, kEach = 5 };

static pthread_barrier_t all_here;

static void* work(void* argument) {
    void* blocks[kEach];
    (void)argument;
    for (long i = 0; i < kEach; i++) {
        blocks[i] = fake_tensor_allocate(size_of_block(i));
    }
    pthread_barrier_wait(&all_here);
    for (long i = 0; i < kEach; i++) {
        fake_tensor_free(blocks[i]);
    }
    return NULL;
}

int main(int argc, char** argv) {
    static pthread_t threads[kMostThreads];
    const long count = number_argument(argc, argv, 1, 2000);
    const size_t stack_bytes = (size_t)number_argument(argc, argv, 2, (long)PTHREAD_STACK_MIN);
    pthread_attr_t attributes;
    if (count > kMostThreads || pthread_barrier_init(&all_here, NULL, (unsigned)count) != 0 ||
        pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, stack_bytes) != 0) {
        return 98;
    }
    for (long i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &attributes, work, NULL) != 0) {
            return 97;
        }
    }
    for (long i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    print_text("allocs=%ld frees=%ld threads=%ld\n", count * kEach, count * kEach, count);
    return 0;
}
