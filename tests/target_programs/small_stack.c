/* Allocates on the smallest stacks that the system gives: of a thread, and of a signal handler. */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>

#include "target.h"

static void on_signal(int number) {
    (void)number;
    /* Raised by the program itself, outside the allocator, so the call is allowed. */
    fake_tensor_free(fake_tensor_allocate(192));
}

static void* work(void* argument) {
    (void)argument;
    for (long i = 0; i < 100; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) != 0 ||
        pthread_create(&thread, &attributes, work, NULL) != 0) {
        return 98;
    }
    pthread_join(thread, NULL);

    /* The first allocation of the main thread happens here, on the handler's stack. */
    const size_t bytes = (size_t)SIGSTKSZ;
    stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) {
        return 97;
    }
    raise(SIGUSR1);
    print_text("allocs=101 frees=101\n");
    return 0;
}
