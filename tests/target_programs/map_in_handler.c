// A library: two threads allocate, and signals interrupt them in the middle of it. The handler maps memory, as runtimes
// with a collector of their own do. A tool that takes a lock of the C library's allocator there waits for ever.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

enum { MAPPED = 1 << 20, KEPT = 64 };

static volatile long handled;

static void handler(int number) {
    (void)number;
    void* const memory = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
        munmap(memory, MAPPED);
    }
    ++handled;
}

static void* work(void* end) {
    void* kept[KEPT] = {NULL};
    unsigned state = 1;
    while (time(NULL) < *(const time_t*)end) {
        state = state * 1103515245 + 12345;
        const unsigned place = (state >> 8) % KEPT;
        free(kept[place]);
        kept[place] = malloc(2000 + (state >> 16) % 60000);
    }
    return NULL;
}

long allocate_among_signals(long seconds) {
    for (int block = 0; block < 400; ++block) {  // enough for a log
        volatile char* const memory = malloc(100000);
        for (int byte = 0; byte < 100000; byte += 4096) {
            memory[byte] = 1;
        }
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    time_t end = time(NULL) + seconds;
    pthread_t threads[2];
    for (int number = 0; number < 2; ++number) {
        pthread_create(&threads[number], NULL, work, &end);
    }
    sigset_t signals;  // for the others
    sigemptyset(&signals);
    sigaddset(&signals, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    const struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_PROF, &often, NULL);
    for (int number = 0; number < 2; ++number) {
        pthread_join(threads[number], NULL);
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &never, NULL);
    return handled;
}
