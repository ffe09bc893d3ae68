/* Brings its stderr into a state in which nobody can write to it, then allocates until recording stops, of which the
 * observer has something to say. States: unread, full, replaced (by a data file, named by the second argument). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "target.h"

static int fill(int pipe_end) {
    char page[4096];
    memset(page, 'x', sizeof page);
    if (fcntl(pipe_end, F_SETFL, O_NONBLOCK) != 0) {
        return 0;
    }
    while (write(pipe_end, page, sizeof page) > 0) {
    }
    return errno == EAGAIN && fcntl(pipe_end, F_SETFL, 0) == 0;
}

int main(int argc, char** argv) {
    const char* state = argc > 1 ? argv[1] : "";
    if (strcmp(state, "replaced") == 0) {
        close(STDERR_FILENO);
        if (argc < 3 || open(argv[2], O_CREAT | O_WRONLY | O_TRUNC, 0600) != STDERR_FILENO) {
            return 98;
        }
    } else if (strcmp(state, "full") == 0 && !fill(STDERR_FILENO)) {
        return 97;
    }
    const struct rlimit limit = {350000, 350000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 96;
    }
    for (long i = 0; i < 20000; i++) {
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    print_text("allocs=20000 frees=20000\n");
    return 0;
}
