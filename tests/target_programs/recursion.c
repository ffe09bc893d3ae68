/* Allocates at the bottom of a recursion of the given depth. */
#include "target.h"

__attribute__((noinline)) static long descend(long depth) {
    if (depth == 0) {
        fake_tensor_free(fake_tensor_allocate(320));
        return 0;
    }
    /* The sum keeps the compiler from making a loop of it. */
    return descend(depth - 1) + 1;
}

int main(int argc, char** argv) {
    const long depth = number_argument(argc, argv, 1, 5000);
    const long reached = descend(depth);
    print_text("allocs=1 frees=1 depth=%ld\n", reached);
    return 0;
}
