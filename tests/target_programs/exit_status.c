/* Allocates a block, copies stdin to stdout, and ends with the given status: none of them is the tool's business. */
#include "target.h"

int main(int argc, char** argv) {
    char buffer[256];
    ssize_t length = 0;
    fake_tensor_free(fake_tensor_allocate(64));
    while ((length = read(STDIN_FILENO, buffer, sizeof buffer)) > 0) {
        if (write(STDOUT_FILENO, buffer, (size_t)length) != length) {
            return 99;
        }
    }
    print_text("allocs=1 frees=1\n");
    return (int)number_argument(argc, argv, 1, 0);
}
