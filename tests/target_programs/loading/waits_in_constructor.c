/* A library's constructor waits for another thread, which allocates with a library that it has opened before. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../target.h"

atomic_int in_constructor, may_end;

static void* open_library(void* name) { return dlopen((const char*)name, RTLD_NOW | RTLD_LOCAL); }

int main(int argc, char** argv) {
    void* first = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    pthread_t thread;
    if (first == NULL) {
        return 98;
    }
    void* (*allocate)(size_t) = NULL;
    void (*release)(void*) = NULL;
    *(void**)&allocate = dlsym(first, "fake_tensor_allocate");
    *(void**)&release = dlsym(first, "fake_tensor_free");
    if (pthread_create(&thread, NULL, open_library, argv[2]) != 0) {
        return 97;
    }
    while (!atomic_load(&in_constructor)) {
        usleep(1000);
    }
    release(allocate(64));
    atomic_store(&may_end, 1);
    void* second = NULL;
    pthread_join(thread, &second);
    print_text("allocs=3 frees=3 opened=%d\n", second != NULL);
    return 0;
}
