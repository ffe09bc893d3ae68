/* Threads that open and close a library without pause, for programs that cannot do that without a lock of their own
 * (Python's). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int ended;
static atomic_long rounds;
static pthread_t threads[2];

static void* open_and_close(void* name) {
    while (!atomic_load(&ended)) {
        void* library = dlopen((const char*)name, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || dlclose(library) != 0) {
            return name;
        }
        atomic_fetch_add(&rounds, 1);
    }
    return NULL;
}

int begin_loops(const char* name) {
    for (int number = 0; number < 2; number++) {
        if (pthread_create(&threads[number], NULL, open_and_close, (void*)name) != 0) {
            return 1;
        }
    }
    return 0;
}

/* How often a library was opened and closed; -1 if that failed once. */
long end_loops(void) {
    long result = 0;
    atomic_store(&ended, 1);
    for (int number = 0; number < 2; number++) {
        void* failed = NULL;
        pthread_join(threads[number], &failed);
        result = failed != NULL ? -1 : result;
    }
    return result < 0 ? result : atomic_load(&rounds);
}
