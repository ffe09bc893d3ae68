/* Allocates, then replaces itself: the same process, two images, so two captures. */
#include <string.h>

#include "target.h"

int main(int argc, char** argv) {
    if (argc > 1 && strcmp(argv[1], "second") == 0) {
        for (long i = 0; i < 60; i++) {
            fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
        }
        print_text("who=second pid=%d allocs=60 frees=60\n", (int)getpid());
        return 0;
    }
    for (long i = 0; i < 20; i++) {
        void* block = fake_tensor_allocate(size_of_block(i));
        if (i % 2 == 0) {
            fake_tensor_free(block);
        }
    }
    print_text("who=first pid=%d allocs=20 frees=10\n", (int)getpid());
    char* arguments[] = {argv[0], "second", NULL};
    execv("/proc/self/exe", arguments);
    return 96;
}
