/* A libc10 whose constructor allocates already. With WAITS, it then waits until the program has allocated and freed,
 * which happens while the loader's lock is held by this thread. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

void* fake_tensor_allocate(size_t bytes) {
    void* block = NULL;
    return posix_memalign(&block, 64, bytes) == 0 ? block : NULL;
}

void fake_tensor_free(void* block) { free(block); }

#ifdef WAITS
extern atomic_int in_constructor, may_end; /* in the program */
#endif

__attribute__((constructor)) static void begin(void) {
    fake_tensor_free(fake_tensor_allocate(4711));
#ifdef WAITS
    atomic_store(&in_constructor, 1);
    while (!atomic_load(&may_end)) {
        usleep(1000);
    }
#endif
}
