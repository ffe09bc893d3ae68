/* Closes every file descriptor that it did not open, as daemons do, and opens files of its own, which get the numbers
 * that were closed. What it writes there must stay as it is while thousands of blocks are recorded. */
#include <fcntl.h>
#include <string.h>

#include "target.h"

enum { kFiles = 40, kBytes = 8192 };

int main(int argc, char** argv) {
    const char* folder = argc > 1 ? argv[1] : ".";
    const long pairs = number_argument(argc, argv, 2, 50000);
    int files[kFiles];
    char expected[kBytes];
    char found[kBytes];
    fake_tensor_free(fake_tensor_allocate(64));
    for (int fd = 3; fd < 1024; fd++) {
        (void)close(fd);
    }
    for (int i = 0; i < kFiles; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/own_%d", folder, i);
        files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        memset(expected, 'a' + i % 26, kBytes);
        if (files[i] < 0 || write(files[i], expected, kBytes) != kBytes) {
            return 98;
        }
    }
    for (long i = 0; i < pairs; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    int intact = 1;
    for (int i = 0; i < kFiles; i++) {
        memset(expected, 'a' + i % 26, kBytes);
        const off_t end = lseek(files[i], 0, SEEK_END);
        intact &= end == kBytes && pread(files[i], found, kBytes, 0) == kBytes && memcmp(found, expected, kBytes) == 0;
    }
    print_text("allocs=%ld frees=%ld files_intact=%d\n", pairs + 1, pairs + 1, intact);
    return intact ? 0 : 1;
}
