/* Two threads open and close a library without pause, while the main thread opens libc10, allocates, and closes it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../target.h"

static atomic_int ended;

static void* open_and_close(void* name) {
    while (!atomic_load(&ended)) {
        void* library = dlopen((const char*)name, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL || dlclose(library) != 0) {
            _exit(96);
        }
    }
    return NULL;
}

int main(int argc, char** argv) {
    const long rounds = number_argument(argc, argv, 3, 10);
    pthread_t threads[2];
    for (int number = 0; number < 2; number++) {
        if (argc < 3 || pthread_create(&threads[number], NULL, open_and_close, argv[2]) != 0) {
            return 97;
        }
    }
    for (long round = 0; round < rounds; round++) {
        void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            return 98;
        }
        void* (*allocate)(size_t) = NULL;
        void (*release)(void*) = NULL;
        *(void**)&allocate = dlsym(library, "fake_tensor_allocate");
        *(void**)&release = dlsym(library, "fake_tensor_free");
        release(allocate(size_of_block(round)));
        if (dlclose(library) != 0) {
            return 95;
        }
    }
    atomic_store(&ended, 1);
    for (int number = 0; number < 2; number++) {
        pthread_join(threads[number], NULL);
    }
    print_text("allocs=%ld frees=%ld\n", rounds, rounds);
    return 0;
}
