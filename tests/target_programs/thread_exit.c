/* Many short-lived threads, a few at a time. Each allocates while it runs and again in a destructor of thread-specific
 * data, which runs late in its end, when thread-local storage of libraries may already be gone. */
#include <pthread.h>
#include <stdatomic.h>

#include "target.h"

enum { kAtATime = 4 };

static pthread_key_t key;
static atomic_long allocs;
static atomic_long frees;

static void pair(long number) {
    void* block = fake_tensor_allocate(size_of_block(number));
    atomic_fetch_add(&allocs, 1);
    fake_tensor_free(block);
    atomic_fetch_add(&frees, 1);
}

static void at_thread_exit(void* rounds) {
    pair(3);
    /* Set again, so that the destructor is called in later rounds too, after everybody else's. */
    if ((long)rounds > 1) {
        pthread_setspecific(key, (void*)((long)rounds - 1));
    }
}

static void* work(void* argument) {
    pthread_setspecific(key, (void*)3L);
    pair((long)argument);
    return NULL;
}

int main(int argc, char** argv) {
    const long batches = number_argument(argc, argv, 1, 100);
    if (pthread_key_create(&key, at_thread_exit) != 0) {
        return 98;
    }
    for (long batch = 0; batch < batches; batch++) {
        pthread_t threads[kAtATime];
        for (long i = 0; i < kAtATime; i++) {
            if (pthread_create(&threads[i], NULL, work, (void*)i) != 0) {
                return 97;
            }
        }
        for (long i = 0; i < kAtATime; i++) {
            pthread_join(threads[i], NULL);
        }
    }
    print_text("allocs=%ld frees=%ld threads=%ld\n", atomic_load(&allocs), atomic_load(&frees), batches * kAtATime);
    return 0;
}
