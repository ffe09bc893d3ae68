/* A handler allocates while the main loop allocates, so it often interrupts the recording of an event. Another thread
 * sends the signals, each as soon as the one before has been handled.
 *
 * The C library's allocator must not be called from a handler. This program therefore brings an allocator of its own
 * that may be: a pool of slots taken by one atomic exchange. It also shows that a program's own posix_memalign and free
 * stay in use under the tool. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "target.h"

enum { kSlots = 256, kSlotBytes = 2048 };

static _Alignas(64) unsigned char pool[kSlots][kSlotBytes];
static atomic_flag taken[kSlots];
static atomic_long in_handler;
static atomic_long pool_calls;

void __libc_free(void* block);

int posix_memalign(void** block, size_t alignment, size_t bytes) {
    (void)alignment;
    atomic_fetch_add(&pool_calls, 1);
    for (int i = 0; bytes <= kSlotBytes && i < kSlots; i++) {
        if (!atomic_flag_test_and_set(&taken[i])) {
            *block = pool[i];
            return 0;
        }
    }
    return ENOMEM;
}

void free(void* block) {
    const uintptr_t offset = (uintptr_t)block - (uintptr_t)pool;
    if (offset < sizeof pool) {
        atomic_fetch_add(&pool_calls, 1);
        atomic_flag_clear(&taken[offset / kSlotBytes]);
        return;
    }
    __libc_free(block);
}

static void on_signal(int number) {
    (void)number;
    const int saved = errno;
    fake_tensor_free(fake_tensor_allocate(512));
    atomic_fetch_add(&in_handler, 1);
    errno = saved;
}

struct sender {
    pthread_t target;
    long signals;
};

static void* send_signals(void* argument) {
    const struct sender* sender = argument;
    for (long sent = 0; sent < sender->signals; sent++) {
        if (pthread_kill(sender->target, SIGUSR1) != 0) {
            _exit(96);
        }
        while (atomic_load(&in_handler) <= sent) {
        }
    }
    return NULL;
}

int main(int argc, char** argv) {
    struct sender sender = {.target = pthread_self(), .signals = number_argument(argc, argv, 1, 300)};
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t thread;
    long pairs = 0;
    if (sigaction(SIGUSR1, &action, NULL) != 0 || pthread_create(&thread, NULL, send_signals, &sender) != 0) {
        return 98;
    }
    while (atomic_load(&in_handler) < sender.signals) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(pairs)));
        pairs++;
    }
    pthread_join(thread, NULL);
    pairs += sender.signals;
    print_text("allocs=%ld frees=%ld in_handler=%ld pool_calls=%ld\n", pairs, pairs, atomic_load(&in_handler),
        atomic_load(&pool_calls));
    return 0;
}
