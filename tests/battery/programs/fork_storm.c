/* Forks in every way, again and again: each process forks three more until a depth is reached, from its main thread and
 * from another one, by fork and by the system call, which runs no handlers. Every process allocates, and reports by its
 * exit status how many of its descendants did. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "target.h"

enum { kChildren = 3 };

static int deepest;
static int run(int depth);

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
}

/* The exit status of the descendants that a child found, itself included. */
static int descend(int depth, int way) {
    const pid_t child = way == 0 ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
    if (child == 0) {
        _exit(1 + run(depth + 1));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        _exit(98);
    }
    return WEXITSTATUS(status);
}

static void* descend_in_thread(void* depth) { return (void*)(long)descend((int)(long)depth, 1); }

static int run(int depth) {
    int found = 0;
    pairs(5);
    if (depth < deepest) {
        found += descend(depth, 0) + descend(depth, 1);
        pthread_t thread;
        void* result = NULL;
        if (pthread_create(&thread, NULL, descend_in_thread, (void*)(long)depth) != 0) {
            _exit(97);
        }
        pthread_join(thread, &result);
        found += (int)(long)result;
    }
    pairs(5);
    print_text("pid=%d allocs=10 frees=10 depth=%d descendants=%d\n", (int)getpid(), depth, found);
    return found;
}

int main(int argc, char** argv) {
    deepest = (int)number_argument(argc, argv, 1, 3);
    run(0);
    return 0;
}
