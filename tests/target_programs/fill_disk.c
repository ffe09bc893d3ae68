/* Fills the file system that holds the given folder, then goes on allocating: recording ends there, the program not. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "target.h"

int main(int argc, char** argv) {
    char path[4096];
    char page[4096];
    const char* folder = argc > 1 ? argv[1] : ".";
    const long pairs = number_argument(argc, argv, 2, 100000);
    for (long i = 0; i < 10; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    (void)snprintf(path, sizeof path, "%s/filler", folder);
    const int filler = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (filler < 0) {
        return 98;
    }
    memset(page, 'x', sizeof page);
    /* The bound is for the case that the folder is not on the small file system that it should be on. */
    errno = 0;
    for (int pages = 0; pages < 32768 && write(filler, page, sizeof page) > 0; pages++) {
    }
    const int reason = errno;
    for (long i = 0; i < pairs; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    print_text("allocs=%ld frees=%ld full=%d\n", pairs + 10, pairs + 10, reason == ENOSPC);
    return 0;
}
