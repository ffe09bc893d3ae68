/* Signals of every kind while blocks come and go. The handlers that allocate do so between two allocations of the thread
 * that they interrupt: the C library's allocator may not be entered twice. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "target.h"

static long pairs_done;

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    pairs_done += count;
}

static void handle(int number, void (*handler)(int), int flags) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(number, &action, NULL) != 0) {
        _exit(98);
    }
}

static atomic_long ticks;
static atomic_int may_allocate;

static void on_tick(int number) {
    (void)number;
    const int saved = errno;
    ticks++;
    if (may_allocate) {
        pairs(1);
    }
    errno = saved;
}

/* A timer that fires a thousand times a second, into the allocator and everything else. */
static void timer(void) {
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    handle(SIGALRM, on_tick, SA_RESTART);
    setitimer(ITIMER_REAL, &often, NULL);
    while (ticks < 200) {
        pairs(10);
        may_allocate = 1;
        for (volatile int wait = 0; wait < 20000; wait++) {
        }
        may_allocate = 0;
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
}

/* System calls are interrupted as often as without us, and no more. */
static void interrupted(void) {
    int ends[2];
    char byte = 0;
    handle(SIGALRM, on_tick, 0);
    const struct itimerval once = {{0, 0}, {0, 50000}};
    if (pipe(ends) != 0) {
        _exit(98);
    }
    setitimer(ITIMER_REAL, &once, NULL);
    const ssize_t got = read(ends[0], &byte, 1);
    print_text("read=%zd errno=%d\n", got, errno);
    pairs(10);
}

static sigjmp_buf back;
static char* page;

static void on_fault(int number) {
    (void)number;
    pairs(1);
    siglongjmp(back, 1);
}

/* A fault is handled on a stack of its own, by a jump back. */
static void fault(void) {
    static char alternate[65536];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int faults = 0;
    for (int i = 0; i < 200; i++) {
        if (sigsetjmp(back, 1) == 0) {
            pairs(3);
            *page = 1;
        }
        faults++;
    }
    print_text("faults=%d\n", faults);
}

static long count_of_children = 20;

static atomic_long reaped;

static void on_child(int number) {
    (void)number;
    const int saved = errno;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
        reaped++;
    }
    errno = saved;
}

/* A handler that reaps whatever child there is. */
static void children(void) {
    handle(SIGCHLD, on_child, SA_RESTART);
    for (long i = 0; i < count_of_children; i++) {
        if (fork() == 0) {
            fake_tensor_free(fake_tensor_allocate(64));
            _exit(0);
        }
        pairs(20);
    }
    while (reaped < count_of_children) {
        usleep(1000);
    }
    print_text("reaped=%ld other=%d\n", atomic_load(&reaped), waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}

static void* wait_for_signals(void* set) {
    int number = 0;
    long got = 0;
    while (sigwait(set, &number) == 0 && number != SIGUSR2) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(got++)));
    }
    return (void*)got;
}

/* Every signal is blocked in every thread; one thread waits for them. A thread of ours that did not block them would be
 * given one, and its default is to end the process. */
static void waiting(void) {
    sigset_t all;
    pthread_t thread;
    void* got = NULL;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    sigset_t waited = all;
    if (pthread_create(&thread, NULL, wait_for_signals, &waited) != 0) {
        _exit(98);
    }
    for (int i = 0; i < 200; i++) {
        pairs(5);
        const union sigval value = {.sival_int = i};
        sigqueue(getpid(), SIGRTMIN + 1, value);
    }
    for (int i = 0; i < 100000; i++) {
        sigset_t pending;
        sigpending(&pending);
        if (!sigismember(&pending, SIGRTMIN + 1)) {
            break;
        }
        usleep(1000);
    }
    kill(getpid(), SIGUSR2);
    pthread_join(thread, &got);
    pairs_done += (long)got;
    print_text("waited_for=%ld\n", (long)got);
}

static void* until_cancelled(void* argument) {
    while (argument == NULL) {
        fake_tensor_free(fake_tensor_allocate(64));
        pthread_testcancel();
    }
    return NULL;
}

/* Threads that are ended by another one. */
static void cancelled(void) {
    int ended = 0;
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        void* result = NULL;
        pthread_create(&thread, NULL, until_cancelled, NULL);
        usleep(200);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        ended += result == PTHREAD_CANCELED;
    }
    print_text("cancelled=%d\n", ended);
}

int main(int argc, char** argv) {
    count_of_children = number_argument(argc, argv, 2, count_of_children);
    const struct {
        const char* name;
        void (*run)(void);
    } ways[] = {{"timer", timer},       {"interrupted", interrupted}, {"fault", fault},
                {"children", children}, {"waiting", waiting},         {"cancelled", cancelled}};
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            return 0;
        }
    }
    return 99;
}
