/* A child made by vfork shares its parent's memory until it calls exec: nothing of the parent may change by that. */
#include <string.h>
#include <sys/wait.h>

#include "target.h"

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
}

int main(int argc, char** argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        pairs(30);
        print_text("who=child pid=%d allocs=30 frees=30\n", (int)getpid());
        return 0;
    }
    pairs(10);
    char* arguments[] = {argv[0], "child", NULL};
    pid_t child = vfork();
    if (child == 0) {
        execv("/proc/self/exe", arguments);
        _exit(96);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        return 98;
    }
    pairs(15);
    print_text("who=parent pid=%d allocs=25 frees=25\n", (int)getpid());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}
