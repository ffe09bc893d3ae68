/* Threads allocate without pause; the main thread says what they had done by then and kills the process. What is
 * recorded may be more than what is said, by the time between the two, and never less. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "target.h"

enum { kThreads = 3 };

static atomic_long allocs[kThreads];
static atomic_long frees[kThreads];

static void* work(void* argument) {
    const long number = (long)argument;
    for (long i = 0;; i++) {
        void* block = fake_tensor_allocate(size_of_block(i));
        atomic_fetch_add(&allocs[number], 1);
        fake_tensor_free(block);
        atomic_fetch_add(&frees[number], 1);
    }
    return NULL;
}

int main(int argc, char** argv) {
    const long milliseconds = number_argument(argc, argv, 1, 20);
    for (long i = 0; i < kThreads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void*)i) != 0) {
            return 97;
        }
    }
    usleep((useconds_t)milliseconds * 1000U);
    long all_allocs = 0;
    long all_frees = 0;
    for (int i = 0; i < kThreads; i++) {
        all_frees += atomic_load(&frees[i]);
        all_allocs += atomic_load(&allocs[i]);
    }
    print_text("allocs=%ld frees=%ld\n", all_allocs, all_frees);
    raise(SIGKILL);
    return 96;
}
