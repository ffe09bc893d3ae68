/* Allocates and frees N blocks one after the other, then allocates K that are never freed. */
#include "target.h"

int main(int argc, char** argv) {
    const long pairs = number_argument(argc, argv, 1, 1000);
    const long kept = number_argument(argc, argv, 2, 0);
    size_t bytes = 0;
    for (long i = 0; i < pairs; i++) {
        bytes += size_of_block(i);
        fake_tensor_free(fake_tensor_allocate(size_of_block(i)));
    }
    for (long i = 0; i < kept; i++) {
        bytes += size_of_block(i);
        (void)fake_tensor_allocate(size_of_block(i));
    }
    /* Not a block: nothing may be recorded. */
    fake_tensor_free(NULL);
    print_text("allocs=%ld frees=%ld bytes=%zu\n", pairs + kept, pairs, bytes);
    return 0;
}
