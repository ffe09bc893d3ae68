/* Allocates N blocks, frees every other one, says so, and ends in one of the ways that run no handler. */
#include <signal.h>
#include <string.h>

#include "target.h"

int main(int argc, char** argv) {
    const char* way = argc > 1 ? argv[1] : "_exit";
    const long count = number_argument(argc, argv, 2, 5000);
    long frees = 0;
    for (long i = 0; i < count; i++) {
        void* block = fake_tensor_allocate(size_of_block(i));
        if (i % 2 == 0) {
            fake_tensor_free(block);
            frees++;
        }
    }
    print_text("allocs=%ld frees=%ld\n", count, frees);
    if (strcmp(way, "abort") == 0) {
        abort();
    }
    if (strcmp(way, "kill") == 0) {
        raise(SIGKILL);
    }
    if (strcmp(way, "fault") == 0) {
        *(volatile int*)0 = 1;
    }
    _exit(7);
}
