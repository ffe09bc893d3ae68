/* Opens libc10, allocates, closes it, and again: it may come back at another address, or at the same one. A block is
 * kept over the closing and freed by the next copy of the library. */
#include <dlfcn.h>

#include "target.h"

int main(int argc, char** argv) {
    const long rounds = number_argument(argc, argv, 2, 10);
    void* kept = NULL;
    for (long round = 0; round < rounds; round++) {
        void* (*allocate)(size_t) = NULL;
        void (*release)(void*) = NULL;
        void* library = dlopen(argc > 1 ? argv[1] : "libc10.so", RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            print_text("error=%s\n", dlerror());
            return 98;
        }
        *(void**)&allocate = dlsym(library, "fake_tensor_allocate");
        *(void**)&release = dlsym(library, "fake_tensor_free");
        for (long i = 0; i < 10; i++) {
            release(allocate(size_of_block(i)));
        }
        if (kept != NULL) {
            release(kept);
        }
        kept = allocate(size_of_block(round));
        if (dlclose(library) != 0) {
            return 97;
        }
    }
    print_text("allocs=%ld frees=%ld\n", rounds * 11, rounds * 11 - 1);
    return 0;
}
