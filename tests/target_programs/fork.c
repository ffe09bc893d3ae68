/* Parent, child and grandchild each allocate and free their own number of blocks, before and after the fork.
 * With "inherited", the child also frees a block that its parent had allocated. */
#include <string.h>
#include <sys/wait.h>

#include "target.h"

static void pairs(long count) {
    for (long i = 0; i < count; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
}

static int wait_for(pid_t child) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
        return 98;
    }
    return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
    const int frees_inherited = argc > 1 && strcmp(argv[1], "inherited") == 0;
    void* inherited = fake_tensor_allocate(4096);
    pairs(10);
    pid_t child = fork();
    if (child == 0) {
        pairs(20);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            pairs(40);
            print_text("who=grandchild pid=%d allocs=40 frees=40\n", (int)getpid());
            return 0;
        }
        if (frees_inherited) {
            fake_tensor_free(inherited);
        }
        pairs(5);
        int status = wait_for(grandchild);
        print_text("who=child pid=%d allocs=25 frees=25 inherited=%d\n", (int)getpid(), frees_inherited);
        return status;
    }
    int status = wait_for(child);
    pairs(7);
    fake_tensor_free(inherited);
    print_text("who=parent pid=%d allocs=18 frees=18\n", (int)getpid());
    return status;
}
