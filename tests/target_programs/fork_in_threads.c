/* One thread forks again and again while others allocate: the child must not find a lock held by a thread that it does
 * not have. Each child allocates and leaves by _exit. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "target.h"

static atomic_int stop;
static atomic_long pairs_done;

static void* work(void* argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        fake_tensor_free(fake_tensor_allocate(256));
        atomic_fetch_add(&pairs_done, 1);
    }
    return NULL;
}

int main(int argc, char** argv) {
    const long children = number_argument(argc, argv, 1, 20);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) {
            return 97;
        }
    }
    for (long i = 0; i < children; i++) {
        pid_t child = fork();
        if (child == 0) {
            fake_tensor_free(fake_tensor_allocate(512));
            print_text("who=child pid=%d allocs=1 frees=1\n", (int)getpid());
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            return 98;
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    print_text("who=parent pid=%d allocs=%ld frees=%ld\n", (int)getpid(), atomic_load(&pairs_done), atomic_load(&pairs_done));
    return 0;
}
