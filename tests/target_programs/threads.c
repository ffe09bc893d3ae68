/* T threads allocate and free N blocks each, all at once; every other block is freed by the next thread. */
#include <pthread.h>

#include "target.h"

enum { kMostThreads = 64 };

static pthread_barrier_t start_line;
static long pairs;
static long thread_count;
static void* handed_over[kMostThreads];

static void* work(void* argument) {
    const long number = (long)argument;
    pthread_barrier_wait(&start_line);
    for (long i = 0; i < pairs; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    handed_over[number] = fake_tensor_allocate(size_of_block(number));
    pthread_barrier_wait(&start_line);
    fake_tensor_free(handed_over[(number + 1) % thread_count]);
    return NULL;
}

int main(int argc, char** argv) {
    pthread_t threads[kMostThreads];
    thread_count = number_argument(argc, argv, 1, 4);
    pairs = number_argument(argc, argv, 2, 1000);
    if (thread_count < 1 || thread_count > kMostThreads ||
        pthread_barrier_init(&start_line, NULL, (unsigned)thread_count) != 0) {
        return 98;
    }
    for (long i = 0; i < thread_count; i++) {
        if (pthread_create(&threads[i], NULL, work, (void*)i) != 0) {
            return 97;
        }
    }
    for (long i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
    }
    print_text("allocs=%ld frees=%ld threads=%ld\n", thread_count * (pairs + 1), thread_count * (pairs + 1), thread_count);
    return 0;
}
